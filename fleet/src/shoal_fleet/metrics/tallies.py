"""How are many small counts kept as one family of Prometheus' samples?

A label's values come from devices and releases. `Names` bounds how many there can be: each value of a label is a series
that Prometheus keeps in memory, and whoever took over a board could else make up new ones without end.
"""

import bisect
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

OTHER = "other"
"""Value of a label that stands for all that have none of their own."""

Labels = tuple[str, ...]


class Names:
    """The first so many different values keep their own names."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._known: set[Labels] = set()

    def admit(self, labels: Labels) -> Labels:
        """The labels themselves, or as many times `OTHER`."""
        if labels not in self._known:
            if len(self._known) >= self._most:
                return (OTHER,) * len(labels)
            self._known.add(labels)
        return labels


class Tally:
    """A number that only grows, for each set of labels."""

    def __init__(self, name: str, meaning: str, *, labels: Sequence[str] = ()) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = tuple(labels)
        self._counts: Counter[Labels] = Counter({(): 0} if not self._labels else {})

    def add(self, count: int, labels: Labels = ()) -> None:
        """Count."""
        self._counts[labels] += count

    def family(self) -> CounterMetricFamily:
        """What Prometheus is told."""
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        return family


class Buckets:
    """Values by size, for each set of labels."""

    def __init__(self, name: str, meaning: str, *, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        """`bounds` ascend; a bucket takes what is at most its bound and above the one before."""
        self._name = name
        self._meaning = meaning
        self._labels = tuple(labels)
        self._bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        self._totals: dict[Labels, float] = {}

    def observe(self, value: float, labels: Labels = ()) -> None:
        """Count one value."""
        counts = self._open(labels)
        counts[bisect.bisect_left(self._bounds, value)] += 1
        self._totals[labels] += value

    def merge(self, up_to: Sequence[int], *, count: int, total: float, labels: Labels = ()) -> None:
        """Count many: `up_to[i]` of them are at most the bound i, `count` are there in all, `total` is their sum."""
        counts = self._open(labels)
        before = 0
        for index, reached in enumerate((*up_to, count)):
            counts[index] += reached - before
            before = reached
        self._totals[labels] += total

    def family(self) -> HistogramMetricFamily:
        """What Prometheus is told."""
        family = HistogramMetricFamily(self._name, self._meaning, labels=self._labels)
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            family.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), self._totals[labels])
        return family

    def _open(self, labels: Labels) -> list[int]:
        if labels not in self._counts:
            self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._totals[labels] = 0.0
        return self._counts[labels]
