"""What do the stored rows say: how fast does each device answer, and what did it answer last?"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from shoal_wire.histogram import Histogram, Sketch
from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from shoal_fleet.telemetry.models import HAS_DEATHS, AnswerRow, EventRow, LatencyRow, ProcessRow, Watermark

DEATHS_WINDOW_S = 86400.0
"""Over how long deaths of workers are counted: they are rare, and one of an hour ago still matters."""


class Pace(NamedTuple):
    """How a device answered over the last seconds, all of its releases together."""

    answers: int
    errors: int
    deaths: int
    """Of workers."""
    answers_per_s: float | None
    """None where the device's intervals have no length."""
    p50_ms: float | None
    p95_ms: float | None


class StreamTotals(NamedTuple):
    """What was met in all streams of a device."""

    duplicates: int
    rejected: int
    lost: int


def measure_pace(session: Session, *, now: float, window_s: float) -> dict[str, Pace]:
    """Pace by device id, of devices whose counts came within the last `window_s` seconds.

    Of a device that was cut off and now sends what it kept, only the newest `window_s` seconds by its own clock count.
    """
    newest = (
        select(LatencyRow.device_id, func.max(LatencyRow.to_at).label("to_at"))
        .where(LatencyRow.received_at > now - window_s)
        .group_by(LatencyRow.device_id)
        .subquery()
    )
    rows = session.scalars(
        select(LatencyRow)
        .join(newest, LatencyRow.device_id == newest.c.device_id)
        .where(LatencyRow.received_at > now - window_s, LatencyRow.to_at > newest.c.to_at - window_s)
    )
    by_device: dict[str, list[LatencyRow]] = {}
    for row in rows:
        by_device.setdefault(row.device_id, []).append(row)
    return {device: add_up(intervals) for device, intervals in by_device.items()}


def add_up(intervals: Sequence[LatencyRow]) -> Pace:
    """Pace over the time from the start of the first interval to the end of the last one."""
    sketch = Sketch()
    for interval in intervals:
        sketch.merge(msgspec.json.decode(interval.latency_ms, type=Histogram))
    answers = sum(interval.answers for interval in intervals)
    duration_s = max(interval.to_at for interval in intervals) - min(interval.from_at for interval in intervals)
    return Pace(
        answers=answers,
        errors=sum(interval.errors for interval in intervals),
        deaths=sum(interval.deaths for interval in intervals),
        answers_per_s=answers / duration_s if duration_s > 0 else None,
        p50_ms=sketch.quantile(0.5),
        p95_ms=sketch.quantile(0.95),
    )


def count_deaths(session: Session, *, now: float, window_s: float = DEATHS_WINDOW_S) -> dict[str, int]:
    """Deaths of workers that came in over the last `window_s` seconds, by device id, of devices that had any."""
    counted = (
        select(LatencyRow.device_id, func.sum(LatencyRow.deaths).label("deaths"))
        .where(HAS_DEATHS, LatencyRow.received_at > now - window_s)
        .group_by(LatencyRow.device_id)
    )
    return {row.device_id: row.deaths for row in session.execute(counted)}


def find_last_answers(session: Session) -> dict[str, AnswerRow]:
    """The answer that was stored last, by device id."""
    last = select(func.max(AnswerRow.id)).group_by(AnswerRow.device_id)
    return {row.device_id: row for row in session.scalars(select(AnswerRow).where(AnswerRow.id.in_(last)))}


def list_answers(
    session: Session, *, device_id: str | None, release: str | None, version: int | None, after_id: int, limit: int
) -> Sequence[AnswerRow]:
    """Answers in the order in which they were stored, from the first one after `after_id`."""
    wanted = _conditions(device_id=device_id, release=release, version=version)
    chosen = select(AnswerRow).where(AnswerRow.id > after_id, *wanted).order_by(AnswerRow.id).limit(limit)
    return session.scalars(chosen).all()


def count_answers(session: Session, *, device_id: str | None, release: str | None, version: int | None) -> int:
    """How many answers are stored."""
    wanted = _conditions(device_id=device_id, release=release, version=version)
    return session.scalars(select(func.count(AnswerRow.id)).where(*wanted)).one()


def list_events(session: Session, *, device_id: str | None, after_id: int, limit: int) -> Sequence[EventRow]:
    """Events in the order in which they were stored, from the first one after `after_id`."""
    chosen = select(EventRow).where(EventRow.id > after_id).order_by(EventRow.id).limit(limit)
    return session.scalars(chosen if device_id is None else chosen.where(EventRow.device_id == device_id)).all()


def find_processes(session: Session, *, device_id: str) -> Sequence[ProcessRow]:
    """The newest count of memory of each of a device's processes."""
    last = select(func.max(ProcessRow.id)).where(ProcessRow.device_id == device_id).group_by(ProcessRow.name)
    return session.scalars(select(ProcessRow).where(ProcessRow.id.in_(last)).order_by(ProcessRow.name)).all()


def total_streams(session: Session, *, device_id: str) -> StreamTotals:
    """Duplicates, rejected and lost rows of all streams of a device."""
    totals = select(_sum(Watermark.duplicates), _sum(Watermark.rejected), _sum(Watermark.lost))
    duplicates, rejected, lost = session.execute(totals.where(Watermark.device_id == device_id)).one()
    return StreamTotals(duplicates=duplicates, rejected=rejected, lost=lost)


def _conditions(*, device_id: str | None, release: str | None, version: int | None) -> list[ColumnElement[bool]]:
    wanted = ((AnswerRow.device_id, device_id), (AnswerRow.release, release), (AnswerRow.version, version))
    return [column == value for column, value in wanted if value is not None]


def _sum(column: InstrumentedAttribute[int]) -> ColumnElement[int]:
    return func.coalesce(func.sum(column), 0)
