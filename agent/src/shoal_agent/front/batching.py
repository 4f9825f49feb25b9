"""How are the calls of one item run?

Where they are known beforehand, several are given to the model at once: tensors are put together along their first
dimension, which must be free in the model, and its outputs are cut apart again. A call's own first dimension is 1. An
input that is a single number has no dimension and is given once; calls in which it differs are run one by one.
Where one call depends on the one before, they are run one by one.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.values import Prepared, Tensors

MAX_FOLLOWING_CALLS = 4096
"""Of one item, where each depends on the one before. A model whose outputs never end an item must not run for ever."""
MAX_FOLLOWING_BYTES = 1 << 28
"""Of all their outputs, which are kept until the item's answer is made."""

RunCall = Callable[[Tensors], Tensors]
"""Gives the outputs of one inference."""


def run_prepared(prepared: Prepared[Any], *, batch: int, run: RunCall) -> list[Tensors]:
    """Outputs of all calls of an item, in order. `batch` counts only where no call depends on another.

    Raises:
        BadOutput: an output doesn't have the length of its batch, or calls follow one another without an end.
        Whatever `run` raises.
    """
    if prepared.follow is None:
        return run_batched(prepared.calls, batch=batch, run=run)
    outputs: list[Tensors] = []
    kept_bytes = 0
    feeds: Tensors | None = prepared.calls[0]
    while feeds is not None:
        if len(outputs) == MAX_FOLLOWING_CALLS:
            raise BadOutput(
                f"the item isn't at its end after {MAX_FOLLOWING_CALLS} calls, which are all that it may have"
            )
        outputs.append(run(feeds))
        kept_bytes += sum(array.nbytes for array in outputs[-1].values())
        if kept_bytes > MAX_FOLLOWING_BYTES:
            raise BadOutput(
                f"the outputs of {len(outputs)} calls have {kept_bytes} bytes, those of one item may have "
                f"{MAX_FOLLOWING_BYTES}"
            )
        feeds = prepared.follow(len(outputs) - 1, outputs[-1])
    return outputs


def run_batched(calls: Sequence[Tensors], *, batch: int, run: RunCall) -> list[Tensors]:
    """Outputs of each call, in order. `run` is asked once for every `batch` calls; the last time perhaps for fewer.

    Raises:
        BadOutput: an output doesn't have the length of its batch.
        Whatever `run` raises.
    """
    outputs: list[Tensors] = []
    for first in range(0, len(calls), batch):
        part = calls[first : first + batch]
        if len(part) == 1 or not _have_same_numbers(part):
            outputs += [run(call) for call in part]
            continue
        joined = {name: _join([call[name] for call in part]) for name in part[0]}
        outputs += _cut(run(joined), count=len(part))
    return outputs


def _have_same_numbers(calls: Sequence[Tensors]) -> bool:
    """Whether all calls have the same in each input without dimensions, bit by bit."""
    single = [name for name, array in calls[0].items() if not array.ndim]
    return all(call[name].tobytes() == calls[0][name].tobytes() for name in single for call in calls[1:])


def _join(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays[0].ndim else arrays[0]


def _cut(outputs: Tensors, *, count: int) -> list[Tensors]:
    for name, array in outputs.items():
        if array.shape[:1] != (count,):
            raise BadOutput(f"output {name!r}: expected {count} rows for a batch of {count}, found {array.shape}")
    return [{name: array[place : place + 1] for name, array in outputs.items()} for place in range(count)]
