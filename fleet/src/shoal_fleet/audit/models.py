"""What is kept of what happened?

Triggers of the database refuse to change or remove a row (`migrations/versions/0003_audit.py`).
"""

from sqlalchemy import BigInteger, Integer, LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base

_Sequence = BigInteger().with_variant(Integer, "sqlite")


class AuditRow(Base):
    """One entry of the log, as `shoal_wire.audit.AuditEntry` has it."""

    __tablename__ = "audit_entry"

    sequence: Mapped[int] = mapped_column(_Sequence, primary_key=True, autoincrement=False)
    at: Mapped[float]
    actor: Mapped[str] = mapped_column(String(300))
    action: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(String(300))
    detail: Mapped[str] = mapped_column(Text)
    """Canonical JSON."""
    previous: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64))


class AuditCheckpointRow(Base):
    """How far the log had come at a time, signed."""

    __tablename__ = "audit_checkpoint"

    sequence: Mapped[int] = mapped_column(_Sequence, primary_key=True, autoincrement=False)
    at: Mapped[float]
    envelope: Mapped[bytes] = mapped_column(LargeBinary)
