"""How much have devices sent, since somebody first asked?

Rows are counted where they lie: each time, those that came since the last time. So taking rows in never waits for
metrics, and a fleet that nobody watches does nothing for them. One worker writes the rows, which therefore become
visible in the order of their ids. As with every counter of Prometheus, a restart begins at 0.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from prometheus_client.metrics_core import Metric
from shoal_wire.histogram import Histogram, count_up_to
from sqlalchemy import Row, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from shoal_fleet.metrics.tallies import OTHER, Buckets, Labels, Names, Tally
from shoal_fleet.releases.models import Release
from shoal_fleet.telemetry.models import EventRow, LatencyRow, LostRow, ProcessRow, RejectedRow

LATENCY_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
DELAY_BOUNDS_S = (1, 5, 15, 30, 60, 300, 900, 3600, 21_600, 86_400)
MEMORY_BOUNDS_BYTES = tuple(mebibytes << 20 for mebibytes in (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024))

MOST_ROWS = 20_000
"""Of one table that are counted at one time, about a second's work; what is left is counted the next time."""
MOST_RELEASES = 100
MOST_EVENTS = 64
PROCESSES = frozenset({"daemon", "front", "updater", "tuning", "worker"})
"""Names of an agent's processes that have a series of their own."""

_Table = type[LatencyRow] | type[EventRow] | type[ProcessRow] | type[LostRow] | type[RejectedRow]
_OF_RELEASE = ("release", "version")


class Traffic:
    """Counts what came. Not safe for threads."""

    def __init__(self) -> None:
        self._last_ids: dict[_Table, int] = {}
        self._releases = Names(most=MOST_RELEASES)
        self._events = Names(most=MOST_EVENTS)
        self._answers = Tally("shoal_answers", "Answers that devices counted.", labels=_OF_RELEASE)
        self._errors = Tally("shoal_errors", "Items that a model failed at.", labels=_OF_RELEASE)
        self._deaths = Tally("shoal_worker_deaths", "Worker processes that died.", labels=_OF_RELEASE)
        self._latency = Buckets(
            "shoal_answer_latency_seconds",
            "From an item's bytes in memory to its answer, as devices counted it; bounds are sharp to 1 %.",
            bounds=LATENCY_BOUNDS_S,
            labels=_OF_RELEASE,
        )
        self._delay = Buckets(
            "shoal_telemetry_delay_seconds",
            "From the end of what a device counted, by its clock, to its arrival.",
            bounds=DELAY_BOUNDS_S,
        )
        self._memory = Buckets(
            "shoal_agent_process_pss_bytes",
            "Memory of an agent's process (PSS), each time that it was measured.",
            bounds=MEMORY_BOUNDS_BYTES,
            labels=("process",),
        )
        self._named = Tally("shoal_events", "Events that devices told of.", labels=("event",))
        self._lost = Tally("shoal_outbox_lost_rows", "Rows that a full outbox of a device had to drop.")
        self._rejected = Tally("shoal_rejected_rows", "Rows of devices that weren't what was agreed.")

    def catch_up(self, session: Session) -> None:
        """Count what came since the last time; the first time, only where to begin."""
        self._count_latencies(session)
        for row in self._new_rows(session, EventRow, EventRow.name):
            self._named.add(1, self._events.admit((row.name,)))
        for row in self._new_rows(session, ProcessRow, ProcessRow.name, ProcessRow.pss_bytes):
            self._memory.observe(row.pss_bytes, (row.name if row.name in PROCESSES else OTHER,))
        for row in self._new_rows(session, LostRow, LostRow.first, LostRow.last):
            self._lost.add(row.last - row.first + 1)
        for _row in self._new_rows(session, RejectedRow):
            self._rejected.add(1)

    def families(self) -> Iterator[Metric]:
        """What Prometheus is told."""
        for one in (self._answers, self._errors, self._deaths, self._named, self._lost, self._rejected):
            yield one.family()
        for buckets in (self._latency, self._delay, self._memory):
            yield buckets.family()

    def _count_latencies(self, session: Session) -> None:
        known = {(name, version) for name, version in session.execute(select(Release.name, Release.version))}
        bounds_ms = [1000 * bound for bound in LATENCY_BOUNDS_S]
        columns = (
            LatencyRow.release,
            LatencyRow.version,
            LatencyRow.answers,
            LatencyRow.errors,
            LatencyRow.deaths,
            LatencyRow.latency_ms,
            LatencyRow.to_at,
            LatencyRow.received_at,
        )
        for row in self._new_rows(session, LatencyRow, *columns):
            labels: Labels = (OTHER, OTHER)
            if (row.release, row.version) in known:  # a device can claim any
                labels = self._releases.admit((row.release, str(row.version)))
            self._answers.add(row.answers, labels)
            self._errors.add(row.errors, labels)
            self._deaths.add(row.deaths, labels)
            histogram = msgspec.json.decode(row.latency_ms, type=Histogram)
            self._latency.merge(
                count_up_to(histogram, bounds_ms),
                count=histogram.zeros + sum(histogram.counts),
                total=histogram.total / 1000,
                labels=labels,
            )
            self._delay.observe(max(0.0, row.received_at - row.to_at))

    def _new_rows(self, session: Session, table: _Table, *columns: InstrumentedAttribute[Any]) -> Iterator[Row[Any]]:
        """Rows that weren't given before, by id; the first time none."""
        last_id = self._last_ids.get(table)
        if last_id is None:
            self._last_ids[table] = session.scalars(select(func.coalesce(func.max(table.id), 0))).one()
            return
        fresh = select(table.id, *columns).where(table.id > last_id).order_by(table.id).limit(MOST_ROWS)
        for row in session.execute(fresh):
            self._last_ids[table] = row.id
            yield row
