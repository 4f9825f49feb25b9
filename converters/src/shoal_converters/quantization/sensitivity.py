"""Which layers cost most when they are quantized? Measured: each alone, or in groups, halved where it matters."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shoal_converters.paths.messages import QuantizedLayer
from shoal_converters.report.results import Layer

MAX_SINGLE = 48
"""So many layers are measured one by one at once."""
FIRST_GROUPS = 24
SPLIT_AT_ONCE = 6
"""So many of the most sensitive groups are halved in each round."""

Names = tuple[str, ...]
Measure = Callable[[Sequence[Names], float], Sequence[float | None]]
"""How far the model's outputs move with each group quantized alone, within seconds; None for those it didn't do."""


@dataclass(frozen=True)
class _Group:
    """Neighbours in the graph, from place `start` to before `end`."""

    start: int
    end: int
    change: float

    @property
    def size(self) -> int:
        return self.end - self.start


def measure_layers(
    layers: Sequence[QuantizedLayer],
    measure: Measure,
    *,
    budget_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Layer, ...]:
    """Layers, the most sensitive first; nothing is said of those that there was no time for.

    A layer whose group wasn't taken apart has what the whole group has: at most that much is its own, as a rule.
    """
    end_s = clock() + budget_s
    names = [layer.name for layer in layers]
    groups = _measure(_divide(len(layers)), names, measure, end_s - clock())
    while True:
        groups.sort(key=lambda group: -group.change)
        dull = [group for group in groups if group.size == 1 or not group.change]
        large = [group for group in groups if group not in dull][:SPLIT_AT_ONCE]
        # Once the most sensitive are single layers, the order of the others matters less.
        left_s = end_s - clock()
        if not large or left_s <= 0 or groups.index(large[0]) >= MAX_SINGLE:
            break
        halves = [half for group in large for half in _halve(group)]
        measured = _measure(halves, names, measure, left_s)
        done = {(group.start, group.end) for group in measured}
        complete = [one for one in large if all(half in done for half in _halve(one))]
        if not complete:
            break
        parts = {half for one in complete for half in _halve(one)}
        groups = [one for one in groups if one not in complete]
        groups += [one for one in measured if (one.start, one.end) in parts]
    return tuple(
        Layer(name=layer.name, operator=layer.operator, sensitivity=group.change, is_kept_float=False)
        for group in groups
        for layer in layers[group.start : group.end]
    )


def _divide(count: int) -> list[tuple[int, int]]:
    pieces = count if count <= MAX_SINGLE else FIRST_GROUPS
    edges = [round(piece * count / pieces) for piece in range(pieces + 1)] if count else []
    return list(pairwise(edges))


def _halve(group: _Group) -> tuple[tuple[int, int], tuple[int, int]]:
    middle = (group.start + group.end) // 2
    return (group.start, middle), (middle, group.end)


def _measure(
    ranges: Sequence[tuple[int, int]], names: Sequence[str], measure: Measure, budget_s: float
) -> list[_Group]:
    if not ranges:
        return []
    changes = measure([tuple(names[start:end]) for start, end in ranges], budget_s)
    return [
        _Group(start, end, change) for (start, end), change in zip(ranges, changes, strict=True) if change is not None
    ]
