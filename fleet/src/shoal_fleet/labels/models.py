"""What is kept of labels?"""

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class DeviceLabel(Base):
    """One label of one device."""

    __tablename__ = "device_label"
    __table_args__ = (Index(None, "key", "value"),)

    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), primary_key=True)
    key: Mapped[str] = mapped_column(String(63), primary_key=True)
    value: Mapped[str] = mapped_column(String(200))
