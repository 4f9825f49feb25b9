"""What does a Core ML program answer here, where Core ML isn't? A path that makes no form, but outputs.

The request's source is a packed package, and its calibration an .npz of arrays `<call>/<input>` in the form of the file
(see bindings): its names, types and shapes. What is written is `outputs.npz` of arrays `<call>/<output>`, the same.
"""

import tempfile
from pathlib import Path

import numpy as np

from shoal_converters.paths.coreml_in_torch.program import Program
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.mlpackage import unpack
from shoal_converters.paths.quantizing import Calibration

FILE = "outputs.npz"
HOW = "interpreted in PyTorch: each operation in float32, its result rounded to the program's type"


def convert(request: Request) -> Reply:
    """Run every call, and write the outputs.

    Raises:
        BadModel: not a packed ML program, or inputs that it doesn't have.
        BadData: no calls.
        PathFailed: operators that aren't interpreted here, each by name.
    """
    calls = Calibration(request, bindings=(), limit=1 << 30)
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(request.source), Path(folder))
        program = Program(Path(folder))
    arrays = {
        f"{number}/{name}": array
        for number, feeds in enumerate(calls.read())
        for name, array in program.run(feeds).items()
    }
    np.savez(Path(request.folder, FILE), allow_pickle=False, **arrays)
    made = Made(name=request.variants[0], format="npz", precision="fp32", files=(FILE,), how=HOW)
    return Reply(made=(made,))
