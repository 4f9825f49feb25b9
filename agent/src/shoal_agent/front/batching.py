"""How are several calls of one item given to a model at once?

Tensors are put together along their first dimension, which must be free in the model, and its outputs are cut apart
again. A call's own first dimension is 1.
"""

from collections.abc import Callable, Sequence

import numpy as np

from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.values import Tensors


def run_batched(calls: Sequence[Tensors], *, batch: int, run: Callable[[Tensors], Tensors]) -> list[Tensors]:
    """Outputs of each call, in order. `run` is asked once for every `batch` calls; the last time perhaps for fewer.

    Raises:
        BadOutput: an output doesn't have the length of its batch.
        Whatever `run` raises.
    """
    outputs: list[Tensors] = []
    for first in range(0, len(calls), batch):
        part = calls[first : first + batch]
        if len(part) == 1:
            outputs.append(run(part[0]))
            continue
        joined = {name: np.concatenate([call[name] for call in part]) for name in part[0]}
        outputs += _cut(run(joined), count=len(part))
    return outputs


def _cut(outputs: Tensors, *, count: int) -> list[Tensors]:
    for name, array in outputs.items():
        if array.shape[:1] != (count,):
            raise BadOutput(f"output {name!r}: expected {count} rows for a batch of {count}, found {array.shape}")
    return [{name: array[place : place + 1] for name, array in outputs.items()} for place in range(count)]
