"""What was counted since the last time, where a front counts from when it loaded a release?"""

from collections.abc import Iterable

from shoal_wire.histogram import Histogram
from shoal_wire.messages import ReleaseReference, Telemetry

from shoal_agent.front_messages import Health

Counted = tuple[ReleaseReference, Health]


class Counts:
    """Turns counts since loading into counts of an interval."""

    def __init__(self, *, now: float) -> None:
        self._from_at = now
        self._last: dict[str, Health] = {}

    def take(self, counted: Iterable[Counted], *, now: float) -> list[Telemetry]:
        """A row for each release that did or lost something since the last call; each load counts from nothing."""
        rows = []
        for reference, health in counted:
            before = self._last.get(reference.manifest_sha256)
            if before is None or not _goes_on(before, health):
                before = Health(
                    slot=health.slot,
                    manifest_sha256=health.manifest_sha256,
                    answers=0,
                    errors=0,
                    deaths=0,
                    histogram=Histogram(),
                )
            self._last[reference.manifest_sha256] = health
            if _sums(health) != _sums(before):
                rows.append(_difference(reference, health, before, from_at=self._from_at, to_at=now))
        self._from_at = now
        return rows

    def start_anew(self) -> None:
        """The front ended: the next one counts from nothing."""
        self._last.clear()


def _goes_on(before: Health, health: Health) -> bool:
    """Whether the later counts hold the earlier ones: they are of one load and none has become less."""
    pairs = zip(_sums(before), _sums(health), strict=True)
    return before.load == health.load and all(earlier <= later for earlier, later in pairs)


def _sums(health: Health) -> tuple[int, int, int]:
    return health.answers, health.errors, health.deaths


def subtract(histogram: Histogram, *, before: Histogram) -> Histogram:
    """What was counted between two histograms of one sketch; all of the later one where it doesn't hold the earlier."""
    earlier = dict(zip(before.keys, before.counts, strict=False))
    bins = {key: count - earlier.pop(key, 0) for key, count in zip(histogram.keys, histogram.counts, strict=False)}
    if earlier or histogram.zeros < before.zeros or min(bins.values(), default=0) < 0:
        return histogram
    left = {key: count for key, count in bins.items() if count}
    return Histogram(
        zeros=histogram.zeros - before.zeros,
        keys=tuple(left),
        counts=tuple(left.values()),
        total=max(0.0, histogram.total - before.total),
    )


def _difference(
    reference: ReleaseReference, health: Health, before: Health, *, from_at: float, to_at: float
) -> Telemetry:
    return Telemetry(
        from_at=from_at,
        to_at=to_at,
        reference=reference,
        answers=health.answers - before.answers,
        errors=health.errors - before.errors,
        deaths=health.deaths - before.deaths,
        latency_ms=subtract(health.histogram, before=before.histogram),
    )
