"""What does the fleet keep of a device?"""

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, false, text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base

_ACTIVE = text("revoked_at IS NULL")


class Device(Base):
    """A board that was enrolled."""

    __tablename__ = "device"
    __table_args__ = (
        # A revoked device keeps its row; its name and its keys may be those of a new one.
        Index("uq_device_name", "name", unique=True, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),
        Index("uq_device_identity_key", "identity_key", unique=True, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),
    )

    id: Mapped[str] = mapped_column(String(63), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    """Label that people use. It may change."""
    project: Mapped[str] = mapped_column(String(63), default="default", server_default=text("'default'"), index=True)
    profile: Mapped[str] = mapped_column(String(200))
    agent_version: Mapped[str] = mapped_column(String(200))
    identity_key: Mapped[str]
    """P-256, as `envelope.public_text` writes it: signs what the device says."""
    hpke_key: Mapped[str]
    """X25519, as `grant.hpke_public_text` writes it: content keys are sealed to it."""
    hybrid_key: Mapped[str | None]
    """As `hybrid_key.hybrid_public_text` writes it: content keys are sealed to it instead, where the device has one."""
    enrolled_at: Mapped[float]
    revoked_at: Mapped[float | None]
    last_seen_at: Mapped[float | None]
    """When the last signed document of the device came, by the fleet's clock."""
    is_online: Mapped[bool] = mapped_column(default=False)
    """What the broker last said of its connection: a hint."""
    reported_counter: Mapped[int] = mapped_column(BigInteger, default=0)
    reported_envelope: Mapped[bytes | None]
    """The newest signed reported document, as received."""
    reported_at: Mapped[float | None]
    reported_epoch: Mapped[int] = mapped_column(BigInteger, default=0)
    reported_generation: Mapped[int] = mapped_column(BigInteger, default=0)
    fingerprint: Mapped[str | None] = mapped_column(String(64))
    """Of the kind of board that it last reported to be; None from an agent that doesn't tell."""
    renews: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Its agent renews its certificate by itself, so that a short-lived one does."""
    held_at: Mapped[float | None]
    """Since when it gets nothing new, as two boards seem to have its keys; None where it isn't held."""
    held_reason: Mapped[str | None] = mapped_column(Text)
    lineage: Mapped[str | None] = mapped_column(Text)
    """Which starts of its daemon were heard lately: JSON of `clones.Lineage`."""
    replaces: Mapped[str | None] = mapped_column(String(63))
    """Id of the device whose place it took."""
    decommissioned_at: Mapped[float | None]
    """When it was taken out of use: what only a device in use needs is gone."""


class DeviceSlot(Base):
    """What a device last reported to run, one row a model."""

    __tablename__ = "device_slot"
    __table_args__ = (Index(None, "release", "version"),)

    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), primary_key=True)
    release: Mapped[str] = mapped_column(String(63), primary_key=True)
    version: Mapped[int]
    manifest_sha256: Mapped[str] = mapped_column(String(64))


class DeviceCertificate(Base):
    """A client certificate that was issued to a device."""

    __tablename__ = "device_certificate"

    serial: Mapped[str] = mapped_column(String(40), primary_key=True)
    """In hex: serials have up to 20 bytes."""
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), index=True)
    not_after: Mapped[float]
    revoked_at: Mapped[float | None]
    authority_sha256: Mapped[str | None] = mapped_column(String(64))
    """Of the authority that issued it; None for the first authority, which issued before this was kept."""
    issued_at: Mapped[float | None]
