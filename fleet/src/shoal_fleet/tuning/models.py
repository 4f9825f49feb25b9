"""What is kept of a board's tuning?

Times are Unix seconds: `at` by the device's clock, `received_at` by the fleet's.
"""

from sqlalchemy import BigInteger, ForeignKey, Index, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class TunedRow(Base):
    """A verdict about one model on one device. A newer one of the same subject takes its place; the older one stays."""

    __tablename__ = "tuned"
    __table_args__ = (
        Index(None, "fingerprint", "model", "objective"),
        Index(None, "device_id", "manifest_sha256"),
    )

    id: Mapped[int] = mapped_column(BigInteger().with_variant(Integer, "sqlite"), primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"))
    stream: Mapped[str] = mapped_column(String(32))
    sequence: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[float]
    received_at: Mapped[float]
    fingerprint: Mapped[str] = mapped_column(String(64))
    """Of the kind of board that it was when this was measured."""
    board: Mapped[str] = mapped_column(Text)
    """That kind, JSON as on the wire."""
    model: Mapped[str] = mapped_column(String(63))
    release: Mapped[str] = mapped_column(String(63))
    version: Mapped[int]
    manifest_sha256: Mapped[str] = mapped_column(String(64))
    objective: Mapped[str] = mapped_column(String(16))
    choice: Mapped[str] = mapped_column(Text)
    """Candidate, JSON as on the wire."""
    files: Mapped[str] = mapped_column(Text)
    """Digests of the chosen variant's plaintext files in its order, JSON: equal texts for equal files."""
    measured: Mapped[str] = mapped_column(Text)
    """Figures of the candidates, JSON as on the wire; the choice is among them."""
    is_settled: Mapped[bool]
    is_confirmed: Mapped[bool]
    is_emulated: Mapped[bool]
