"""What does a Core ML form answer to every item of a set, where Core ML doesn't run?

Its program is read again and interpreted in PyTorch, in a process apart (`shoal_converters.paths.coreml_run`): what the
program says, not what Apple's hardware makes of it. A path takes some calls at a time, so that outputs stay few.
"""

from collections.abc import Iterator, Mapping, Sequence

from shoal_agent.front.bindings import Bindings
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Answer, Prepared, Tensors

from shoal_converters.datasets.items import Item
from shoal_converters.errors import ConverterError
from shoal_converters.evaluation import Answers, Unfit
from shoal_converters.forms import Form, Signature
from shoal_converters.paths import COREML_RUN
from shoal_converters.paths.call_files import OUTPUTS, read_calls, write_calls
from shoal_converters.paths.messages import Request
from shoal_converters.paths.process import run_path
from shoal_converters.scratch import scratch_folder

ITEMS = 128
"""In one run of the path, which loads PyTorch each time."""
TIMEOUT_S = 1800.0
PACKAGE, CALLS = "model.mlpackage.zip", "calls.npz"


def answer_interpreted(
    form: Form, items: Sequence[Item], *, signature: Signature, pipeline: Pipeline, interpreters: Mapping[str, str]
) -> Answers:
    """Answers of a Core ML form. `interpreters` has the Python program of the extra `coreml`, if it isn't this one.

    Raises:
        Unfit: PyTorch or coremltools isn't installed, an operator isn't interpreted, calls depend on one another, or
            outputs don't fit the pipeline.
    """
    bindings = Bindings(form.bindings, inputs=signature.inputs, outputs=signature.outputs)
    answers: list[Answer] = []
    for first in range(0, len(items), ITEMS):
        part = items[first : first + ITEMS]
        try:
            prepared = [pipeline.prepare(item.raw) for item in part]
            outputs = _run(form, prepared, bindings=bindings, interpreters=interpreters)
            answers += [pipeline.finish(calls, one.context) for one, calls in zip(prepared, outputs, strict=True)]
        except (OperationError, ConverterError) as error:
            raise Unfit(f"interpreted in PyTorch: {error}") from None
    return Answers(judged_in="its program interpreted in PyTorch", answers=tuple(answers))


def _run(
    form: Form, prepared: Sequence[Prepared[object]], *, bindings: Bindings, interpreters: Mapping[str, str]
) -> Iterator[list[Tensors]]:
    """Outputs of each item's calls, by their names in the signature."""
    if any(one.follow is not None for one in prepared):
        raise Unfit("interpreted in PyTorch: calls that depend on one another aren't")
    calls = [bindings.to_file(call) for one in prepared for call in one.calls]
    with scratch_folder() as folder:
        (folder / PACKAGE).write_bytes(next(iter(form.files.values())))
        write_calls(folder / CALLS, calls)
        out = folder / "out"
        out.mkdir()
        request = Request(
            source=str(folder / PACKAGE),
            format=form.format,
            folder=str(out),
            variants=(form.name,),
            calibration=str(folder / CALLS),
        )
        reply = run_path(COREML_RUN, request, interpreters=interpreters, timeout_s=TIMEOUT_S)
        if reply.refused:
            raise Unfit(f"interpreted in PyTorch: {reply.refused[form.name]}")
        found = read_calls(out / OUTPUTS, count=len(calls))
    restored = iter([bindings.from_file(outputs) for outputs in found])
    return iter([[next(restored) for _ in one.calls] for one in prepared])
