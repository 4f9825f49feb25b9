"""How does a person log in, how are they recognised afterwards, and when does that end?"""

import hashlib
import secrets
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, not_, or_, select
from sqlalchemy.orm import Session

from shoal_fleet.access import known_browsers, throttle, users
from shoal_fleet.access.models import LoginSession, User
from shoal_fleet.access.passwords import Passwords
from shoal_fleet.access.roles import Known
from shoal_fleet.access.throttle import Who
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


class LoginAttempt(NamedTuple):
    """What somebody tries to log in with."""

    name: str
    password: str
    address: str
    """From which they come."""
    browser: str = ""
    """What the cookie of `known_browsers.py` says; empty without one."""


class Begun(NamedTuple):
    """Secrets for the two cookies of who has logged in."""

    session: str
    browser: str


def count_attempt(session: Session, attempt: LoginAttempt, *, now: float) -> float:
    """Count an attempt before its password is looked at; returns how long it is to be held up until then, in seconds.

    Raises:
        TooSoon: too many attempts failed; it isn't to be looked at.
    """
    who = _who_tries(session, attempt, now=now)
    session.rollback()
    with writing(session):
        return throttle.count_attempt(session, who, now=now)


def log_in(session: Session, attempt: LoginAttempt, *, passwords: Passwords, now: float) -> Begun:
    """Begin a session by an attempt that was counted. Its secret of 256 random bits is told this once.

    Raises:
        TooSoon: too many log in at this moment.
        NotAllowed: wrong; it isn't said whether there is such a user.
    """
    who = _who_tries(session, attempt, now=now)
    user = users.find_by_name(session, attempt.name)
    password_hash = user.password_hash if user is not None and user.disabled_at is None else None
    # A name that isn't a user's may be a password that was typed into the wrong field.
    subject, detail = "" if user is None else user.name, {"from": attempt.address}
    session.rollback()
    if not passwords.matches(password_hash, attempt.password) or user is None or password_hash is None:
        with writing(session):
            audit.append(session, actor=audit.FLEET, action="login.failed", subject=subject, detail=detail, now=now)
        raise NotAllowed("login: name or password is wrong")
    renewed = passwords.hash(attempt.password) if passwords.is_outdated(password_hash) else password_hash
    with writing(session):
        throttle.forgive(session, who)
        user.password_hash = renewed
        known = known_browsers.note(session, attempt.browser, user=user, now=now)
        return Begun(begin(session, user, how="password", now=now), known)


def begin(session: Session, user: User, *, how: str, now: float, vouched_until: float | None = None) -> str:
    """Begin a session of a user who has proved to be that, in the caller's transaction; returns its secret.

    `vouched_until`: how long the identity provider's word counts, where it is by that.
    """
    session.execute(delete(LoginSession).where(_has_ended(now)))
    secret = secrets.token_urlsafe(32)
    session.add(
        LoginSession(
            secret_sha256=digest(secret),
            user_id=user.id,
            created_at=now,
            last_seen_at=now,
            vouched_until=vouched_until,
        )
    )
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
    row = session.get(LoginSession, digest(secret[:MAX_SECRET_CHARACTERS]))
    if row is None or now >= _end(row):
        raise NotAllowed("session: has ended; log in again")
    user = session.get_one(User, row.user_id)
    if user.disabled_at is not None:
        raise NotAllowed("session: has ended; log in again")
    actor = f"user:{user.name}"
    known = Known(actor, frozenset(users.list_roles(session, user)), person=actor, ends_at=None)
    if now - row.last_seen_at >= SEEN_GRAIN_S:
        session.rollback()
        with writing(session):
            row.last_seen_at = now
    return known


def list_vouched(session: Session, *, now: float) -> Sequence[str]:
    """Digests of the secrets of sessions that the identity provider vouches for and that haven't ended."""
    return session.scalars(
        select(LoginSession.secret_sha256).where(LoginSession.vouched_until.is_not(None), not_(_has_ended(now)))
    ).all()


def log_out(session: Session, secret: str) -> None:
    """End a session, if there is one."""
    with writing(session):
        end(session, digest(secret[:MAX_SECRET_CHARACTERS]))


def end(session: Session, secret_sha256: str) -> None:
    """End the session whose secret has that digest, if there is one, in the caller's transaction."""
    session.execute(delete(LoginSession).where(LoginSession.secret_sha256 == secret_sha256))


def digest(secret: str) -> str:
    """What is kept of a session's secret."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _who_tries(session: Session, attempt: LoginAttempt, *, now: float) -> Who:
    is_known = known_browsers.is_known(session, attempt.browser, name=attempt.name, now=now)
    return throttle.who_tries(
        name=attempt.name, address=attempt.address, known_browser=attempt.browser if is_known else None
    )


def _end(row: LoginSession) -> float:
    ends = [row.last_seen_at + IDLE_S, row.created_at + LIFETIME_S]
    return min(ends if row.vouched_until is None else [*ends, row.vouched_until])


def _has_ended(now: float) -> ColumnElement[bool]:
    """The same as `_end` says, for the database."""
    return or_(
        LoginSession.last_seen_at <= now - IDLE_S,
        LoginSession.created_at <= now - LIFETIME_S,
        LoginSession.vouched_until <= now,
    )
