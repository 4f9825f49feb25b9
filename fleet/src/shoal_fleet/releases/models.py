"""What does the fleet keep of a release?"""

from sqlalchemy import BigInteger, ForeignKey, LargeBinary, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class Release(Base):
    """A release that the publisher has signed and uploaded. Its manifest is a target of `trust`."""

    __tablename__ = "release"
    __table_args__ = (UniqueConstraint("name", "version"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(63))
    version: Mapped[int]
    manifest_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    targets_version: Mapped[int]
    """Version of the targets metadata that brought it."""
    created_at: Mapped[float]


class ReleaseKey(Base):
    """The content key of one sealed file of a release, wrapped: opened only where a device is assigned."""

    __tablename__ = "release_key"

    release_id: Mapped[int] = mapped_column(ForeignKey("release.id"), primary_key=True)
    ciphertext_sha256: Mapped[str] = mapped_column(String(64), primary_key=True, index=True)
    wrapped: Mapped[bytes] = mapped_column(LargeBinary)


class FleetGrant(Base):
    """A content key as the publisher sealed it to the fleet, from before content keys were wrapped.

    Moved to `ReleaseKey` when the fleet is started; none are written.
    """

    __tablename__ = "fleet_grant"

    release_id: Mapped[int] = mapped_column(ForeignKey("release.id"), primary_key=True)
    ciphertext_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    counter: Mapped[int] = mapped_column(BigInteger)
    sealed_key: Mapped[str]
