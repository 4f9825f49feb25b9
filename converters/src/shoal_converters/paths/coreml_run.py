"""What does a Core ML program answer here, where Core ML isn't? A path that makes no form, but outputs.

The request's source is a packed package. Its calls, and the outputs, are in the form of the file (see bindings): its
names, types and shapes.
"""

import tempfile
from pathlib import Path

from shoal_converters.paths.call_files import answer_calls
from shoal_converters.paths.coreml_in_torch.program import Program
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.mlpackage import unpack

HOW = "interpreted in PyTorch: each operation in float32, its result rounded to the program's type"


def convert(request: Request) -> Reply:
    """Run every call, and write the outputs.

    Raises:
        BadModel: not a packed ML program, or inputs that it doesn't have.
        BadData: no calls.
        PathFailed: operators that aren't interpreted here, each by name.
    """
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(request.source), Path(folder))
        program = Program(Path(folder))
    return answer_calls(request, program.run, how=HOW)
