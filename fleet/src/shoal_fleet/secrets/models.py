"""What does the fleet keep of a device's secrets?"""

from sqlalchemy import BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class DeviceSecret(Base):
    """A secret that was sealed to a device by an operator's command."""

    __tablename__ = "device_secret"

    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    counter: Mapped[int] = mapped_column(BigInteger)
    """Of its last value; stays when the secret is removed, so that an old value is never taken for a new one."""
    sealed: Mapped[str | None] = mapped_column(String(2048))
    """None once it was removed."""
    changed_at: Mapped[float]
