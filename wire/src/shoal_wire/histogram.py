"""How are latencies counted, so that counts from many boards can be added up and still give a p95?

DDSketch (Masson, Rim and Lee, VLDB 2019): a quantile of the merged sketch is within 1 % of the true value. Percentiles
themselves can't be merged, so they are never sent.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Annotated

import msgspec
from ddsketch.ddsketch import BaseDDSketch
from ddsketch.mapping import LogarithmicMapping
from ddsketch.store import CollapsingLowestDenseStore
from msgspec import Meta

from shoal_wire.errors import Malformed

RELATIVE_ACCURACY = 0.01
_MAX_BINS = 2048

# Bins of the smallest and the largest normal float, so that every key of a histogram stands for a value.
_Key = Annotated[int, Meta(ge=-35_417, le=35_487)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """A sketch on the wire: `keys[i]` is a bin of the logarithmic mapping, `counts[i]` the values in it."""

    zeros: _Count = 0
    keys: Annotated[tuple[_Key, ...], Meta(max_length=_MAX_BINS)] = ()
    counts: Annotated[tuple[_Count, ...], Meta(max_length=_MAX_BINS)] = ()
    total: Annotated[float, Meta(ge=0)] = 0.0
    """Exact sum of the values."""


class Sketch:
    """Counts values of at least 0, in whatever unit the caller names."""

    def __init__(self) -> None:
        self._store = CollapsingLowestDenseStore(_MAX_BINS)
        self._zeros = 0
        self._total = 0.0

    @classmethod
    def of(cls, histogram: Histogram) -> "Sketch":
        """The sketch that a histogram was made from.

        Raises:
            Malformed: keys and counts don't pair up.
        """
        sketch = cls()
        sketch.merge(histogram)
        return sketch

    @property
    def count(self) -> int:
        """Number of values."""
        return self._zeros + int(self._store.count)

    def add(self, value: float) -> None:
        """Count one value; one below 0 counts as 0."""
        if value > _MAPPING.min_possible:
            self._store.add(_MAPPING.key(value))
            self._total += value
        else:
            self._zeros += 1

    def merge(self, histogram: Histogram) -> None:
        """Add the values of another one.

        Raises:
            Malformed: keys and counts don't pair up.
        """
        if len(histogram.keys) != len(histogram.counts):
            raise Malformed(f"histogram: {len(histogram.keys)} keys with {len(histogram.counts)} counts")
        for key, count in zip(histogram.keys, histogram.counts, strict=True):
            if count:
                self._store.add(key, float(count))
        self._zeros += histogram.zeros
        self._total += histogram.total

    def histogram(self) -> Histogram:
        """What to send."""
        bins = [(self._store.offset + index, int(count)) for index, count in enumerate(self._store.bins) if count]
        return Histogram(
            zeros=self._zeros,
            keys=tuple(key for key, _ in bins),
            counts=tuple(count for _, count in bins),
            total=self._total,
        )

    def quantile(self, fraction: float) -> float | None:
        """The value below which that fraction lies, within 1 %; None when nothing was counted."""
        sketch = BaseDDSketch(_MAPPING, self._store, CollapsingLowestDenseStore(1), float(self._zeros))
        value = sketch.get_quantile_value(fraction)
        return None if value is None else float(value)


def count_up_to(histogram: Histogram, bounds: Sequence[float]) -> list[int]:
    """How many values lie at or below each bound. Values within 1 % of a bound may be counted on its other side.

    Bounds are above 0 and ascend. The histogram must be one that `Sketch.of` takes.
    """
    limits = [_last_key(bound) for bound in bounds]
    counts = [0] * (len(limits) + 1)
    for key, count in zip(histogram.keys, histogram.counts, strict=True):
        counts[bisect_left(limits, key)] += count
    return [histogram.zeros + reached for reached in accumulate(counts[:-1])]


@cache
def _last_key(bound: float) -> int:
    """The highest bin that stands for a value of at most `bound`."""
    key = int(_MAPPING.key(bound))
    return key if _MAPPING.value(key) <= bound else key - 1


_MAPPING = LogarithmicMapping(RELATIVE_ACCURACY)
