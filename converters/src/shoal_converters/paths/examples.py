"""Which shapes and values does a model get while a tool traces it, or writes a file whose shapes are all fixed?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shoal_wire.manifest import Binding, Tensor

from shoal_converters.errors import BadRecipe
from shoal_converters.paths.messages import Request
from shoal_converters.paths.quantizing import Calibration

Array = NDArray[Any]

FREE = -1
MAX_CALLS = 64
"""Of a request that are looked at for the lengths of free axes."""
LONGEST_INTEGER = 2
"""Values of made-up integers lie below: they are indices or flags, and a table with fewer rows than that is rare."""


def fix_shapes(request: Request, inputs: Sequence[Tensor], *, bindings: Sequence[Binding] = ()) -> tuple[Tensor, ...]:
    """The inputs with a batch of 1, and other free axes as long as they are in every call that the request has.

    `bindings` say how these inputs, of a file, correspond to those of the signature, which calls are made for.

    Raises:
        BadRecipe: a free axis beside the batch whose length nobody says, or that varies; or calls of other inputs.
        BadData: the calls can't be read.
    """
    calls = _read_calls(request, inputs, bindings)
    return tuple(
        Tensor(name=one.name, dtype=one.dtype, shape=_fix(one, [call[one.name].shape for call in calls]))
        for one in inputs
    )


def make_examples(
    request: Request, inputs: Sequence[Tensor], *, batch: int = 1, bindings: Sequence[Binding] = ()
) -> list[Array]:
    """An array for each input: of the longest call of the request if it has any, else made up, always the same.

    `batch` is the length of a free first axis; other free axes are as long as they are in that call. Raises as
    `fix_shapes` does, but not where lengths vary.
    """
    calls = _read_calls(request, inputs, bindings)
    longest = max(calls, key=lambda call: sum(call[one.name].size for one in inputs), default={})
    random = np.random.default_rng(0)
    examples = []
    for one in inputs:
        shape = _fix(one, [longest[one.name].shape] if longest else [])
        if one.shape and one.shape[0] == FREE:
            shape = (batch, *shape[1:])
        if longest:
            examples.append(np.resize(longest[one.name], shape).astype(one.dtype))
        elif np.dtype(one.dtype).kind == "f":
            examples.append(random.standard_normal(shape).astype(one.dtype))
        else:
            examples.append(random.integers(0, LONGEST_INTEGER, shape).astype(one.dtype))
    return examples


def _read_calls(
    request: Request, inputs: Sequence[Tensor], bindings: Sequence[Binding]
) -> Sequence[Mapping[str, Array]]:
    if not request.calibration:
        return []
    calls = list(Calibration(request, bindings=bindings, limit=MAX_CALLS).read())
    for call in calls:
        for one in inputs:
            if one.name not in call or call[one.name].ndim != len(one.shape):
                found = ", ".join(f"{name}{list(array.shape)}" for name, array in call.items())
                raise BadRecipe(
                    f"the model takes {one.name}{list(one.shape)}, but pre-processing gives {found}: correct the "
                    "recipe's pre or its source.inputs"
                )
    return calls


def _fix(tensor: Tensor, found: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    shape = list(tensor.shape)
    for axis, length in enumerate(shape):
        if length != FREE:
            continue
        lengths = {one[axis] for one in found}
        if axis == 0:
            shape[axis] = 1
        elif len(lengths) == 1:
            shape[axis] = lengths.pop()
        else:
            known = f"pre-processing gives {sorted(lengths)}" if lengths else "there are no items to tell"
            raise BadRecipe(
                f"input {tensor.name}: axis {axis} is free, and one length is needed here; {known}: write the length "
                "into the recipe's source.inputs, and have pre-processing pad or cut to it"
            )
    return tuple(shape)
