"""With which browsers has a user logged in before?

Such a browser isn't slowed down by those who try to guess the user's password elsewhere (`throttle.py`). Its cookie is
a random secret that is worth nothing else: neither a login nor a second factor.
"""

import hashlib
import secrets

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from shoal_fleet.access.models import KnownBrowser, User

KNOWN_S = 90 * 86400.0
"""How long after the last login a browser counts as known."""
MAX_BY_USER = 20
"""Browsers of one user; of more, those seen last count."""

_MAX_SECRET_CHARACTERS = 128


def is_known(session: Session, secret: str, *, name: str, now: float) -> bool:
    """Whether the user of that name has logged in with the browser that has this cookie."""
    row = _find(session, secret)
    if row is None or now >= row.seen_at + KNOWN_S:
        return False
    return session.scalar(select(User.id).where(User.name == name)) == row.user_id


def note(session: Session, secret: str, *, user: User, now: float) -> str:
    """Know a browser from here on, in the caller's transaction; returns the secret for its cookie.

    That is the one that it has, where it is this user's already.
    """
    session.execute(delete(KnownBrowser).where(KnownBrowser.seen_at <= now - KNOWN_S))
    row = _find(session, secret)
    if row is not None and row.user_id == user.id:
        row.seen_at = now
        return secret
    made = secrets.token_urlsafe(32)
    session.add(KnownBrowser(secret_sha256=_digest(made), user_id=user.id, seen_at=now))
    session.flush()
    newest_first = select(KnownBrowser).where(KnownBrowser.user_id == user.id).order_by(KnownBrowser.seen_at.desc())
    for beyond in session.scalars(newest_first.offset(MAX_BY_USER)):
        session.delete(beyond)
    return made


def _find(session: Session, secret: str) -> KnownBrowser | None:
    return session.get(KnownBrowser, _digest(secret)) if 0 < len(secret) <= _MAX_SECRET_CHARACTERS else None


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
