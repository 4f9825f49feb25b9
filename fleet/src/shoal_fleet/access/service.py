"""How are API tokens made, recognised and taken back?"""

import hashlib
import hmac
import secrets
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access.models import ApiToken, Role
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotAllowed, NotFound

PREFIX = "shoal_"
"""By which scanners for leaked secrets know a token."""

MAX_TOKEN_CHARACTERS = 200
LAST_USED_GRAIN_S = 60.0
"""How exactly the last use is kept: not every request is worth a write."""


class Caller(NamedTuple):
    """Who asks, as their token says."""

    token_id: int
    name: str
    role: Role


def create_token(session: Session, *, name: str, role: Role, now: float) -> str:
    """Make a token of 256 random bits. This is the only time that it can be read.

    Raises:
        Conflict: a token of that name is in use.
    """
    token = PREFIX + secrets.token_urlsafe(32)
    with writing(session):
        if _find_active(session, name):
            raise Conflict(f"API token {name!r}: there is one of that name; revoke it first, or take another name")
        session.add(ApiToken(name=name, secret_sha256=_digest(token), role=role, created_at=now))
    return token


def revoke_token(session: Session, name: str, *, now: float) -> None:
    """Take a token back; the next request with it is refused.

    Raises:
        NotFound: no token of that name is in use.
    """
    with writing(session):
        row = _find_active(session, name)
        if row is None:
            raise NotFound(f"API token {name!r}: there is none of that name in use")
        row.revoked_at = now


def has_tokens(session: Session) -> bool:
    """Whether any token was ever made."""
    return session.scalar(select(ApiToken.id).limit(1)) is not None


def authenticate(session: Session, token: str, *, now: float) -> Caller:
    """Whose token this is.

    Raises:
        NotAllowed: nobody's, or revoked. The message never repeats the token.
    """
    digest = _digest(token[:MAX_TOKEN_CHARACTERS])
    row = session.scalar(select(ApiToken).where(ApiToken.secret_sha256 == digest))
    if row is None or not hmac.compare_digest(row.secret_sha256, digest):
        raise NotAllowed("API token: not known to this fleet")
    if row.revoked_at is not None:
        raise NotAllowed(f"API token {row.name!r}: revoked")
    if row.last_used_at is None or now - row.last_used_at >= LAST_USED_GRAIN_S:
        session.rollback()
        with writing(session):
            row.last_used_at = now
    return Caller(token_id=row.id, name=row.name, role=row.role)


def _find_active(session: Session, name: str) -> ApiToken | None:
    return session.scalar(select(ApiToken).where(ApiToken.name == name, ApiToken.revoked_at.is_(None)))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
