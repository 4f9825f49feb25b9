"""What does the database hold of wrapped secrets?"""

from sqlalchemy import LargeBinary, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class WrappingKey(Base):
    """The key that all other secrets are wrapped under, itself under the key-encryption key. One row."""

    __tablename__ = "wrapping_key"

    id: Mapped[int] = mapped_column(primary_key=True)
    kek: Mapped[str] = mapped_column(Text)
    """URI of the key-encryption key."""
    wrapped: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[float]


class FleetSecret(Base):
    """A private key of the fleet, wrapped."""

    __tablename__ = "fleet_secret"

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    wrapped: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[float]
