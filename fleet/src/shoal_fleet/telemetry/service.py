"""How does a batch of a device's outbox become rows, exactly once?

All that a batch brings is committed in one transaction with the watermark that says so; the acknowledgement is made
from what was committed. Whoever dies in between, the device sends the batch again, and the watermark skips it.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
from shoal_wire import envelope
from shoal_wire.encoding import decode, encode
from shoal_wire.envelope import PublicKey
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.histogram import Histogram, Sketch
from shoal_wire.messages import (
    MAX_BATCH_BYTES,
    Ack,
    Answer,
    Batch,
    Event,
    Process,
    Reported,
    Row,
    Telemetry,
    Tuned,
    parse_row,
)
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.database import Base, writing
from shoal_fleet.telemetry.models import (
    AnswerRow,
    EventRow,
    LatencyRow,
    LostRow,
    ProcessRow,
    RejectedRow,
    Watermark,
)
from shoal_fleet.telemetry.watermark import advance
from shoal_fleet.tuning.models import TunedRow


class Place(NamedTuple):
    """Where a row stood, and when it came."""

    device_id: str
    stream: str
    sequence: int
    received_at: float
    """Unix seconds by the fleet's clock."""


def open_batch(raw: bytes, *, device_id: str, identity_key: PublicKey) -> Batch:
    """The batch in an envelope that came on the topic of a device.

    Raises:
        Malformed: no envelope, no batch, or too long.
        Unsupported: written for newer software.
        Untrusted: not signed by the device's identity key, or of another device.
    """
    what = f"batch of device {device_id}"
    payload = envelope.verify(raw, envelope.BATCH, [identity_key], what=what, limit_bytes=MAX_BATCH_BYTES)
    batch = decode(payload, Batch, what=what, limit_bytes=MAX_BATCH_BYTES)
    if batch.device != device_id:
        raise Untrusted(f"{what}: expected its own device id, found {batch.device}")
    return batch


def commit_batch(session: Session, batch: Batch, *, now: float) -> Ack:
    """Store what is new of a batch; returns what the device may be told once this has returned.

    A row that isn't what was agreed is kept aside as it came, and the stream goes on.

    Raises:
        Malformed: the rows that it declares lost aren't those right before its first one; nothing is stored.
    """
    with writing(session):
        mark = session.get(Watermark, (batch.device, batch.stream), with_for_update=True)
        before = mark.sequence if mark else 0
        step = advance(batch, watermark=before)
        if step.watermark > before:
            if mark is None:
                mark = Watermark(device_id=batch.device, stream=batch.stream, duplicates=0, rejected=0, lost=0)
                session.add(mark)
            mark.sequence, mark.updated_at = step.watermark, now
            _store_loss(session, batch, mark, count=step.lost)
            _store_rows(session, batch, mark, skip=step.skip)
    return Ack(device=batch.device, stream=batch.stream, sequence=step.watermark)


def acknowledge_report(session: Session, reported: Reported) -> Ack:
    """What a device on trial may be told once its reported document is committed: an agent that can say what it runs,
    and hears that it was heard, can be mended from here."""
    mark = session.get(Watermark, (reported.device, reported.stream))
    sequence = mark.sequence if mark else 0
    return Ack(device=reported.device, stream=reported.stream, sequence=sequence, reported=reported.counter)


def _store_loss(session: Session, batch: Batch, mark: Watermark, *, count: int) -> None:
    if batch.lost is None or not count:
        return
    row = LostRow(
        device_id=batch.device,
        stream=batch.stream,
        first=batch.first - count,
        last=batch.first - 1,
        reason=batch.lost.reason,
        received_at=mark.updated_at,
    )
    session.add(row)
    mark.lost += count


def _store_rows(session: Session, batch: Batch, mark: Watermark, *, skip: int) -> None:
    rows = [
        _make_row(bytes(batch.rows[index]), Place(batch.device, batch.stream, batch.first + index, mark.updated_at))
        for index in range(skip, len(batch.rows))
    ]
    mark.rejected += sum(isinstance(row, RejectedRow) for row in rows)
    fresh = _without_duplicates(session, rows, device_id=batch.device)
    mark.duplicates += len(rows) - len(fresh)
    session.add_all(fresh)


def _without_duplicates(session: Session, rows: list[Base], *, device_id: str) -> list[Base]:
    """The rows without answers that are stored already, or stand twice among them."""
    wanted = {row.answer_id for row in rows if isinstance(row, AnswerRow)}
    stored = select(AnswerRow.answer_id).where(AnswerRow.device_id == device_id, AnswerRow.answer_id.in_(wanted))
    known = set(session.scalars(stored)) if wanted else set()
    fresh: list[Base] = []
    for row in rows:
        if isinstance(row, AnswerRow):
            if row.answer_id in known:
                continue
            known.add(row.answer_id)
        fresh.append(row)
    return fresh


def _make_row(raw: bytes, place: Place) -> Base:
    try:
        row = parse_row(raw)
        return _MAKERS[type(row)](row, place)
    except Malformed as error:
        return RejectedRow(**place._asdict(), raw=raw, reason=str(error))


def _make_answer(row: Answer, place: Place) -> Base:
    return AnswerRow(
        **place._asdict(),
        answer_id=row.answer_id,
        at=row.at,
        source=row.source,
        item=row.item,
        release=row.reference.release,
        version=row.reference.version,
        manifest_sha256=row.reference.manifest_sha256,
        latency_ms=row.latency_ms,
        answer=msgspec.json.encode(row.answer).decode(),
        words=row.words,
    )


def _make_event(row: Event, place: Place) -> Base:
    return EventRow(**place._asdict(), at=row.at, name=row.name, detail=row.detail, generation=row.generation)


def _make_latency(row: Telemetry, place: Place) -> Base:
    _check_histogram(row.latency_ms)
    if row.to_at < row.from_at:
        raise Malformed(f"telemetry: ends at {row.to_at}, expected no earlier than its start at {row.from_at}")
    return LatencyRow(
        **place._asdict(),
        from_at=row.from_at,
        to_at=row.to_at,
        release=row.reference.release,
        version=row.reference.version,
        manifest_sha256=row.reference.manifest_sha256,
        answers=row.answers,
        errors=row.errors,
        latency_ms=encode(row.latency_ms).decode(),
        deaths=row.deaths,
    )


def _make_process(row: Process, place: Place) -> Base:
    return ProcessRow(**place._asdict(), at=row.at, name=row.name, pss_bytes=row.pss_bytes, rss_bytes=row.rss_bytes)


def _make_tuned(row: Tuned, place: Place) -> Base:
    if row.choice not in [one.candidate for one in row.measured]:
        raise Malformed(f"tuned: expected the choice among the {len(row.measured)} candidates, found {row.choice}")
    return TunedRow(
        **place._asdict(),
        at=row.at,
        fingerprint=row.board.fingerprint,
        board=encode(row.board).decode(),
        model=row.model,
        release=row.reference.release,
        version=row.reference.version,
        manifest_sha256=row.reference.manifest_sha256,
        objective=row.objective,
        choice=encode(row.choice).decode(),
        files=msgspec.json.encode(row.files).decode(),
        measured=msgspec.json.encode(row.measured).decode(),
        is_settled=row.is_settled,
        is_confirmed=row.is_confirmed,
        is_emulated=row.board.is_emulated,
    )


def _check_histogram(histogram: Histogram) -> None:
    """Make sure that every later question to this histogram has an answer."""
    try:
        Sketch.of(histogram).quantile(1.0)
    except OverflowError:
        raise Malformed("telemetry: the histogram holds a value that is no number of milliseconds") from None


_MAKERS: dict[type[Row], Callable[..., Base]] = {
    Answer: _make_answer,
    Event: _make_event,
    Telemetry: _make_latency,
    Process: _make_process,
    Tuned: _make_tuned,
}
