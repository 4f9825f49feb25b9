"""What does the API say of answers, events and counts?"""

from typing import Any, Self

import msgspec
from pydantic import BaseModel

from shoal_fleet.telemetry.models import AnswerRow, EventRow, ProcessRow
from shoal_fleet.telemetry.queries import Pace, StreamTotals


class AnswerView(BaseModel):
    """What a model said about one item. Times are Unix seconds: `at` by the device's clock."""

    id: int
    """Grows in the order in which answers were stored."""
    device: str
    answer_id: str
    at: float
    received_at: float
    source: str
    item: str
    release: str
    version: int
    manifest_sha256: str
    latency_ms: float
    answer: dict[str, Any]
    words: str

    @classmethod
    def of(cls, row: AnswerRow) -> Self:
        """View of a row."""
        return cls(
            id=row.id,
            device=row.device_id,
            answer_id=row.answer_id,
            at=row.at,
            received_at=row.received_at,
            source=row.source,
            item=row.item,
            release=row.release,
            version=row.version,
            manifest_sha256=row.manifest_sha256,
            latency_ms=row.latency_ms,
            answer=msgspec.json.decode(row.answer),
            words=row.words,
        )


class AnswerCount(BaseModel):
    """How many answers are stored."""

    count: int


class EventView(BaseModel):
    """Something that a device thought a person may want to know."""

    id: int
    device: str
    at: float
    received_at: float
    name: str
    detail: str
    generation: int

    @classmethod
    def of(cls, row: EventRow) -> Self:
        """View of a row."""
        return cls(
            id=row.id,
            device=row.device_id,
            at=row.at,
            received_at=row.received_at,
            name=row.name,
            detail=row.detail,
            generation=row.generation,
        )


class ProcessView(BaseModel):
    """Memory of one of the agent's processes, as last counted."""

    name: str
    at: float
    pss_bytes: int
    rss_bytes: int


class TelemetryView(BaseModel):
    """How a device answered over the last seconds, and what its streams went through."""

    device: str
    window_s: float
    answers: int
    errors: int
    deaths: int
    """Of workers."""
    answers_per_s: float | None
    p50_ms: float | None
    p95_ms: float | None
    duplicates: int
    """Answers that were sent twice, in streams of different starts, and are stored once."""
    rejected: int
    """Rows that weren't what was agreed; kept as they came."""
    lost: int
    """Rows that a full outbox had to drop."""
    processes: list[ProcessView]

    @classmethod
    def of(
        cls, *, device_id: str, window_s: float, pace: Pace | None, totals: StreamTotals, processes: list[ProcessRow]
    ) -> Self:
        """View of what the queries found; without a pace nothing was counted."""
        return cls(
            device=device_id,
            window_s=window_s,
            answers=pace.answers if pace else 0,
            errors=pace.errors if pace else 0,
            deaths=pace.deaths if pace else 0,
            answers_per_s=pace.answers_per_s if pace else None,
            p50_ms=pace.p50_ms if pace else None,
            p95_ms=pace.p95_ms if pace else None,
            duplicates=totals.duplicates,
            rejected=totals.rejected,
            lost=totals.lost,
            processes=[ProcessView.model_validate(row, from_attributes=True) for row in processes],
        )
