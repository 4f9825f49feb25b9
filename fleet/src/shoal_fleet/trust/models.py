"""What is kept of the signed metadata?"""

from sqlalchemy import LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class RoleMetadata(Base):
    """One version of the metadata of a role, as the bytes that were signed."""

    __tablename__ = "role_metadata"

    role: Mapped[str] = mapped_column(String(16), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    raw: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[float]


class Target(Base):
    """The bytes of a target, of which there may be several versions at one path."""

    __tablename__ = "target"

    path: Mapped[str] = mapped_column(String(300), primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    raw: Mapped[bytes] = mapped_column(LargeBinary)
