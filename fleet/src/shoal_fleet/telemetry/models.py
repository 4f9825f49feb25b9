"""What is kept of the devices' outboxes?

Times are Unix seconds: `at` by the device's clock, `received_at` by the fleet's.
"""

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base

_RowId = BigInteger().with_variant(Integer, "sqlite")
"""SQLite numbers rows by itself only if the column is an INTEGER, which has 64 bits there."""

HAS_DEATHS = text("deaths > 0")
"""Condition of the few intervals in which workers died. With a bound number the database can't see the index's own."""


class Watermark(Base):
    """How far one stream of a device is committed, and what was met on the way."""

    __tablename__ = "watermark"

    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), primary_key=True)
    stream: Mapped[str] = mapped_column(String(32), primary_key=True)
    sequence: Mapped[int] = mapped_column(BigInteger, default=0)
    """The highest one up to which all rows are committed or known to be lost."""
    duplicates: Mapped[int] = mapped_column(BigInteger, default=0)
    """Answers that another row had brought before."""
    rejected: Mapped[int] = mapped_column(BigInteger, default=0)
    lost: Mapped[int] = mapped_column(BigInteger, default=0)
    updated_at: Mapped[float]


class AnswerRow(Base):
    """What a model said about one item. A device has one row for each item, however often it was run."""

    __tablename__ = "answer"
    __table_args__ = (
        UniqueConstraint("device_id", "answer_id"),
        Index(None, "device_id", "id"),
        Index(None, "release", "version"),
    )

    id: Mapped[int] = mapped_column(_RowId, primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"))
    answer_id: Mapped[str] = mapped_column(String(64))
    stream: Mapped[str] = mapped_column(String(32))
    sequence: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[float]
    received_at: Mapped[float]
    source: Mapped[str] = mapped_column(String(200))
    item: Mapped[str] = mapped_column(String(200))
    release: Mapped[str] = mapped_column(String(63))
    version: Mapped[int]
    manifest_sha256: Mapped[str] = mapped_column(String(64))
    latency_ms: Mapped[float]
    answer: Mapped[str] = mapped_column(Text)
    """JSON."""
    words: Mapped[str] = mapped_column(Text)


class EventRow(Base):
    """Something that a device thought a person may want to know."""

    __tablename__ = "event"
    __table_args__ = (Index(None, "device_id", "id"),)

    id: Mapped[int] = mapped_column(_RowId, primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"))
    stream: Mapped[str] = mapped_column(String(32))
    sequence: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[float]
    received_at: Mapped[float]
    name: Mapped[str] = mapped_column(String(128))
    detail: Mapped[str] = mapped_column(Text)
    generation: Mapped[int] = mapped_column(BigInteger)


class LatencyRow(Base):
    """What a device counted for one release over some seconds."""

    __tablename__ = "latency"
    __table_args__ = (
        Index(None, "device_id", "to_at"),
        Index("ix_latency_deaths", "received_at", sqlite_where=HAS_DEATHS, postgresql_where=HAS_DEATHS),
    )

    id: Mapped[int] = mapped_column(_RowId, primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"))
    stream: Mapped[str] = mapped_column(String(32))
    sequence: Mapped[int] = mapped_column(BigInteger)
    from_at: Mapped[float]
    to_at: Mapped[float]
    received_at: Mapped[float]
    release: Mapped[str] = mapped_column(String(63))
    version: Mapped[int]
    manifest_sha256: Mapped[str] = mapped_column(String(64))
    answers: Mapped[int] = mapped_column(BigInteger)
    errors: Mapped[int] = mapped_column(BigInteger)
    latency_ms: Mapped[str] = mapped_column(Text)
    """Histogram of milliseconds, JSON as on the wire."""
    deaths: Mapped[int] = mapped_column(BigInteger, server_default=text("0"))
    """Of workers."""


class ProcessRow(Base):
    """Memory of one of an agent's processes."""

    __tablename__ = "process"
    __table_args__ = (Index(None, "device_id", "id"),)

    id: Mapped[int] = mapped_column(_RowId, primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"))
    stream: Mapped[str] = mapped_column(String(32))
    sequence: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[float]
    received_at: Mapped[float]
    name: Mapped[str] = mapped_column(String(128))
    pss_bytes: Mapped[int] = mapped_column(BigInteger)
    rss_bytes: Mapped[int] = mapped_column(BigInteger)


class LostRow(Base):
    """Sequence numbers that a device declared lost, because its outbox was full."""

    __tablename__ = "lost_row"

    id: Mapped[int] = mapped_column(_RowId, primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"))
    stream: Mapped[str] = mapped_column(String(32))
    first: Mapped[int] = mapped_column(BigInteger)
    last: Mapped[int] = mapped_column(BigInteger)
    reason: Mapped[str] = mapped_column(Text)
    received_at: Mapped[float]


class RejectedRow(Base):
    """A row that isn't what was agreed, as it came: the stream goes on without it."""

    __tablename__ = "rejected_row"

    id: Mapped[int] = mapped_column(_RowId, primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"))
    stream: Mapped[str] = mapped_column(String(32))
    sequence: Mapped[int] = mapped_column(BigInteger)
    raw: Mapped[bytes] = mapped_column(LargeBinary)
    reason: Mapped[str] = mapped_column(Text)
    received_at: Mapped[float]
