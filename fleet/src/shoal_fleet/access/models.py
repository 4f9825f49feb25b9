"""What does the fleet keep of those who may use it?

Times are Unix seconds by the fleet's clock.
"""

from sqlalchemy import Enum, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.access.roles import Role
from shoal_fleet.database import Base

_ACTIVE = text("revoked_at IS NULL")
_ROLE = Enum(Role, native_enum=False, length=16, values_callable=lambda roles: [role.value for role in roles])


class Project(Base):
    """Devices and releases that belong together. A project is never removed."""

    __tablename__ = "project"

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    created_at: Mapped[float]


class ReleaseName(Base):
    """To which project the releases of a name belong, and with them their rollouts."""

    __tablename__ = "release_name"

    name: Mapped[str] = mapped_column(String(63), primary_key=True)
    project: Mapped[str] = mapped_column(ForeignKey("project.name"), index=True)


class User(Base):
    """A person."""

    __tablename__ = "user_account"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), unique=True)
    password_hash: Mapped[str | None] = mapped_column(String(300))
    """Argon2id in its usual text form; None where an identity provider vouches for the person."""
    subject: Mapped[str | None] = mapped_column(String(300), unique=True)
    """What the identity provider calls the person: it never changes, while names do. None for a local user."""
    created_at: Mapped[float]
    disabled_at: Mapped[float | None]


class UserRole(Base):
    """A role of a user."""

    __tablename__ = "user_role"

    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), primary_key=True)
    project: Mapped[str] = mapped_column(String(63), primary_key=True)
    role: Mapped[Role] = mapped_column(_ROLE, primary_key=True)


class LoginSession(Base):
    """A user who is logged in with a browser. Of the cookie only the digest is kept."""

    __tablename__ = "login_session"

    secret_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), index=True)
    created_at: Mapped[float]
    last_seen_at: Mapped[float]
    vouched_until: Mapped[float | None]
    """How long the identity provider's word counts; None where the person has a password here."""


class KnownBrowser(Base):
    """A browser with which a user has logged in. Of its cookie only the digest is kept."""

    __tablename__ = "known_browser"

    secret_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    user_id: Mapped[int] = mapped_column(ForeignKey("user_account.id"), index=True)
    seen_at: Mapped[float]
    """When the user last logged in with it."""


class LoginFailures(Base):
    """How often somebody failed to log in of late, by what `throttle.py` counts."""

    __tablename__ = "login_failures"

    subject_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    """Of the user's name, of the address, or of both: what was typed into the wrong field isn't kept."""
    failures: Mapped[int]
    last_at: Mapped[float] = mapped_column(index=True)


class ApiToken(Base):
    """A token of which only the digest is kept."""

    __tablename__ = "api_token"
    __table_args__ = (Index("uq_api_token_name", "name", unique=True, sqlite_where=_ACTIVE, postgresql_where=_ACTIVE),)

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200))
    secret_sha256: Mapped[str] = mapped_column(String(64), unique=True)
    created_at: Mapped[float]
    last_used_at: Mapped[float | None]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]
    made_by: Mapped[str] = mapped_column(String(300), server_default=text("''"))
    """As the audit log names them; empty where it isn't known any more."""
    person: Mapped[str] = mapped_column(String(300), server_default=text("''"))
    """Who answers for it: where a token made it, who answers for that one. Empty where it isn't known any more."""


class TokenRole(Base):
    """A role of a token."""

    __tablename__ = "token_role"

    token_id: Mapped[int] = mapped_column(ForeignKey("api_token.id"), primary_key=True)
    project: Mapped[str] = mapped_column(String(63), primary_key=True)
    role: Mapped[Role] = mapped_column(_ROLE, primary_key=True)
