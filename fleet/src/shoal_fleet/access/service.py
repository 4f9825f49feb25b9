"""How are API tokens made, recognised and taken back?"""

import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access import users
from shoal_fleet.access.models import ApiToken, TokenRole
from shoal_fleet.access.projects import check_project
from shoal_fleet.access.roles import EVERYWHERE, NAME, USER, Held, Known, Reach, Role, check_name, cut, is_within
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotAllowed, NotFound, Refused

PREFIX = "shoal_"
"""By which scanners for leaked secrets know a token."""

MAX_TOKEN_CHARACTERS = 200
LAST_USED_GRAIN_S = 60.0
"""How exactly the last use is kept: not every request is worth a write."""


class ListedToken(NamedTuple):
    """A token, of which nothing is secret."""

    row: ApiToken
    held: Sequence[Held]


def create_token(
    session: Session,
    *,
    name: str,
    roles: Collection[Role],
    now: float,
    project: str = EVERYWHERE,
    expires_at: float | None = None,
    actor: str = audit.FLEET,
    person: str | None = None,
) -> str:
    """Make a token of 256 random bits. This is the only time that it can be read.

    `person` answers for it; None where that is `actor`.

    Raises:
        Conflict: a token of that name is in use.
        NotFound: no such project.
        Refused: a name that can't be one, no role, or a time that is past.
    """
    check_name(name, pattern=NAME, what="API token")
    if not roles:
        raise Refused(f"API token {name!r}: expected at least one role, found none")
    if expires_at is not None and expires_at <= now:
        raise Refused(f"API token {name!r}: expected a time in the future as its end, found one that is past")
    token = PREFIX + secrets.token_urlsafe(32)
    with writing(session):
        check_project(session, project)
        if _find_active(session, name):
            raise Conflict(f"API token {name!r}: there is one of that name; revoke it first, or take another name")
        row = ApiToken(
            name=name,
            secret_sha256=_digest(token),
            created_at=now,
            expires_at=expires_at,
            made_by=actor,
            person=actor if person is None else person,
        )
        session.add(row)
        session.flush()
        session.add_all(TokenRole(token_id=row.id, project=project, role=role) for role in set(roles))
        detail = {"roles": sorted(role.value for role in roles), "project": project, "expires_at": expires_at}
        audit.append(session, actor=actor, action="token.made", subject=name, detail=detail, now=now)
    return token


def choose_end(wanted: float | None, *, parent: float | None) -> float | None:
    """When a token ends that is made by one that ends at `parent`: no later than that.

    Raises:
        Refused: a later time is asked for.
    """
    if parent is None:
        return wanted
    if wanted is not None and wanted > parent:
        raise Refused(
            "API token: expected an end no later than that of the token that makes it, found one "
            f"{wanted - parent:.0f} s after it; leave the time out for the same end"
        )
    return parent if wanted is None else wanted


def list_tokens(session: Session, *, within: Reach) -> list[ListedToken]:
    """Tokens that are in use and reach nothing outside `within`, by name."""
    rows = session.scalars(select(ApiToken).where(ApiToken.revoked_at.is_(None)).order_by(ApiToken.name)).all()
    listed = [ListedToken(row, _held(session, row)) for row in rows]
    return [one for one in listed if _is_within(one.held, within)]


def revoke_token(
    session: Session, name: str, *, now: float, within: Reach = frozenset({EVERYWHERE}), actor: str = audit.FLEET
) -> None:
    """Take a token back; the next request with it is refused.

    Raises:
        NotFound: no token of that name is in use and reaches nothing outside `within`.
    """
    with writing(session):
        row = _find_active(session, name)
        if row is None or not _is_within(_held(session, row), within):
            raise NotFound(f"API token {name[:200]!r}: there is none of that name in use")
        row.revoked_at = now
        audit.append(session, actor=actor, action="token.revoked", subject=name, detail={}, now=now)


def has_tokens(session: Session) -> bool:
    """Whether any token was ever made."""
    return session.scalar(select(ApiToken.id).limit(1)) is not None


def authenticate(session: Session, token: str, *, now: float) -> Known:
    """Whose token this is. It holds no more than the user who made it, or the token that did, holds at this moment.

    Raises:
        NotAllowed: nobody's, revoked, past its end, or of a user who is disabled, gone or without any role. The message
            never repeats the token.
    """
    digest = _digest(token[:MAX_TOKEN_CHARACTERS])
    row = session.scalar(select(ApiToken).where(ApiToken.secret_sha256 == digest))
    if row is None or not hmac.compare_digest(row.secret_sha256, digest):
        raise NotAllowed("API token: not known to this fleet")
    if row.revoked_at is not None:
        raise NotAllowed(f"API token {row.name!r}: revoked")
    if row.expires_at is not None and now >= row.expires_at:
        raise NotAllowed(f"API token {row.name!r}: has ended; make a new one")
    held = _held_now(session, row)
    if row.last_used_at is None or now - row.last_used_at >= LAST_USED_GRAIN_S:
        session.rollback()
        with writing(session):
            row.last_used_at = now
    return Known(f"token:{row.name}", held, row.person, row.expires_at)


def _is_within(held: Sequence[Held], within: Reach) -> bool:
    return all(is_within(one.project, within) for one in held)


def _held(session: Session, row: ApiToken) -> list[Held]:
    rows = session.scalars(
        select(TokenRole).where(TokenRole.token_id == row.id).order_by(TokenRole.project, TokenRole.role)
    )
    return [Held(one.project, one.role) for one in rows]


def _held_now(session: Session, row: ApiToken) -> frozenset[Held]:
    held = frozenset(_held(session, row))
    if not row.person.startswith(USER):
        return held
    name = row.person.removeprefix(USER)
    user = users.find_by_name(session, name)
    limit = [] if user is None else users.list_roles(session, user)
    if user is None or user.disabled_at is not None or not limit:
        reason = "is gone" if user is None else "has no role any more" if user.disabled_at is None else "was disabled"
        raise NotAllowed(
            f"API token {row.name!r}: the token's maker {name!r} {reason}; one that outlives people is made on the "
            "server: shoal-fleet token add"
        )
    return cut(held, limit=limit)


def _find_active(session: Session, name: str) -> ApiToken | None:
    return session.scalar(select(ApiToken).where(ApiToken.name == name, ApiToken.revoked_at.is_(None)))


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
