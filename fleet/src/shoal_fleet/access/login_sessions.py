"""How does a person log in, how are they recognised afterwards, and when does that end?"""

import hashlib
import secrets

from sqlalchemy import ColumnElement, delete, or_
from sqlalchemy.orm import Session

from shoal_fleet.access import throttle, users
from shoal_fleet.access.models import LoginSession, User
from shoal_fleet.access.passwords import Passwords
from shoal_fleet.access.roles import Known
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.errors import NotAllowed

IDLE_S = 3600.0
"""A session that nobody uses ends after this."""
LIFETIME_S = 12 * 3600.0
"""A session ends after this however it is used."""
SEEN_GRAIN_S = 60.0
"""How exactly the last use is kept."""

MAX_SECRET_CHARACTERS = 128


def log_in(session: Session, *, name: str, password: str, address: str, passwords: Passwords, now: float) -> str:
    """Begin a session; returns its secret of 256 random bits, for the only time.

    Raises:
        TooSoon: too many attempts failed.
        NotAllowed: wrong; it isn't said whether there is such a user.
    """
    who = throttle.who_tries(name=name, address=address)
    with writing(session):
        throttle.count_attempt(session, who, now=now)
    user = users.find_by_name(session, name)
    password_hash = user.password_hash if user is not None and user.disabled_at is None else None
    # A name that isn't a user's may be a password that was typed into the wrong field.
    subject, detail = "" if user is None else user.name, {"from": address}
    session.rollback()
    if not passwords.matches(password_hash, password) or user is None or password_hash is None:
        with writing(session):
            audit.append(session, actor=audit.FLEET, action="login.failed", subject=subject, detail=detail, now=now)
        raise NotAllowed("login: name or password is wrong")
    renewed = passwords.hash(password) if passwords.is_outdated(password_hash) else password_hash
    with writing(session):
        throttle.forgive(session, who)
        user.password_hash = renewed
        return begin(session, user, how="password", now=now)


def begin(session: Session, user: User, *, how: str, now: float) -> str:
    """Begin a session of a user who has proved to be that, in the caller's transaction; returns its secret."""
    session.execute(delete(LoginSession).where(_has_ended(now)))
    secret = secrets.token_urlsafe(32)
    session.add(LoginSession(secret_sha256=_digest(secret), user_id=user.id, created_at=now, last_seen_at=now))
    detail = {"how": how}
    audit.append(
        session, actor=f"user:{user.name}", action="login.succeeded", subject=user.name, detail=detail, now=now
    )
    return secret


def recognise(session: Session, secret: str, *, now: float) -> Known:
    """Whose session this is.

    Raises:
        NotAllowed: nobody's, or one that has ended.
    """
    row = session.get(LoginSession, _digest(secret[:MAX_SECRET_CHARACTERS]))
    if row is None or now >= row.last_seen_at + IDLE_S or now >= row.created_at + LIFETIME_S:
        raise NotAllowed("session: has ended; log in again")
    user = session.get_one(User, row.user_id)
    if user.disabled_at is not None:
        raise NotAllowed("session: has ended; log in again")
    known = Known(user.name, frozenset(users.list_roles(session, user)))
    if now - row.last_seen_at >= SEEN_GRAIN_S:
        session.rollback()
        with writing(session):
            row.last_seen_at = now
    return known


def log_out(session: Session, secret: str) -> None:
    """End a session, if there is one."""
    with writing(session):
        digest = _digest(secret[:MAX_SECRET_CHARACTERS])
        session.execute(delete(LoginSession).where(LoginSession.secret_sha256 == digest))


def _has_ended(now: float) -> ColumnElement[bool]:
    return or_(LoginSession.last_seen_at <= now - IDLE_S, LoginSession.created_at <= now - LIFETIME_S)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
