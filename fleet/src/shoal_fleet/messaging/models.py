"""What is kept of messages that were refused?"""

from sqlalchemy import BigInteger, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class RefusedMessages(Base):
    """How many messages on one topic were refused, and why the last one was.

    The device is that of the topic, which the broker vouches for; it needn't be one that the fleet knows.
    """

    __tablename__ = "refused_message"

    device_id: Mapped[str] = mapped_column(String(63), primary_key=True)
    channel: Mapped[str] = mapped_column(String(32), primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger, default=0)
    last_reason: Mapped[str] = mapped_column(Text)
    last_at: Mapped[float]
    """Unix seconds."""
