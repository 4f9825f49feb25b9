"""How do calls reach a path, and their outputs come back? As .npz files of arrays `<call>/<tensor>`.

Some paths make no form, but say what a model answers: the request's source is the model, its calibration the calls, and
what is written is one such file of outputs.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.quantizing import Calibration

Array = NDArray[Any]
Tensors = dict[str, Array]

OUTPUTS = "outputs.npz"
MOST_CALLS = 1 << 30


def write_calls(path: Path, calls: Iterable[Mapping[str, Array]]) -> None:
    """Tensors by name, of each call."""
    arrays = {f"{number}/{name}": array for number, call in enumerate(calls) for name, array in call.items()}
    np.savez(path, allow_pickle=False, **arrays)


def read_calls(path: Path, *, count: int) -> list[Tensors]:
    """What `write_calls` wrote, of so many calls."""
    found: list[Tensors] = [{} for _ in range(count)]
    with np.load(path, allow_pickle=False) as arrays:
        for key in arrays.files:
            number, _, name = key.partition("/")
            found[int(number)][name] = arrays[key]
    return found


def answer_calls(request: Request, run: Callable[[Tensors], Mapping[str, Array]], *, how: str) -> Reply:
    """Run the calls of a request and write the outputs; `how`: in what they were computed, with its version.

    Raises:
        BadData: no calls.
    """
    calls = Calibration(request, bindings=(), limit=MOST_CALLS)
    write_calls(Path(request.folder, OUTPUTS), map(run, calls.read()))
    made = Made(name=request.variants[0], format="npz", precision="fp32", files=(OUTPUTS,), how=how)
    return Reply(made=(made,))
