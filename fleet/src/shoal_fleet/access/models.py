"""What does the fleet keep of an API token?"""

import enum

from sqlalchemy import Enum, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base


class Role(enum.Enum):
    """What the holder of a token may do."""

    READ = "read"
    ADMIN = "admin"


_ACTIVE = text("revoked_at IS NULL")


class ApiToken(Base):
    """A token of which only the digest is kept."""

    __tablename__ = "api_token"
    __table_args__ = (Index("uq_api_token_name", "name", unique=True, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    secret_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    role: Mapped[Role] = mapped_column(
        Enum(Role, native_enum=False, length=16, values_callable=lambda roles: [role.value for role in roles])
    )
    created_at: Mapped[float]
    last_used_at: Mapped[float | None]
    revoked_at: Mapped[float | None]
