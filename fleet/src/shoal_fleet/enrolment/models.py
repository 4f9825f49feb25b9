"""What is kept of an enrolment token?"""

from sqlalchemy import ForeignKey, LargeBinary, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class EnrolmentTokenRow(Base):
    """A token for one new device. Of its secret only the digest is kept."""

    __tablename__ = "enrolment_token"

    secret_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    """Label that the device will have."""
    project: Mapped[str] = mapped_column(String(63), default="default", server_default=text("'default'"))
    """That it will be in; one that replaces a device will be where that one is then."""
    labels: Mapped[str] = mapped_column(Text, default="{}", server_default=text("'{}'"))
    """That it will have: a JSON object."""
    created_at: Mapped[float]
    expires_at: Mapped[float]
    keys_sha256: Mapped[str | None] = mapped_column(String(64))
    """Digest of the three public keys that spent it; None while it is unspent."""
    device_id: Mapped[str | None] = mapped_column(ForeignKey("device.id"))
    answer: Mapped[bytes | None] = mapped_column(LargeBinary)
    """What the device was told, byte for byte: the same keys get it again."""
    replaces: Mapped[str | None] = mapped_column(String(63))
    """Id of the device whose place the new one takes; None for one that takes nobody's."""
    authority_sha256: Mapped[str | None] = mapped_column(String(64))
    """Of the authority that the token names; None for the first one."""
