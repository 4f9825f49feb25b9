"""Which people may use the fleet, with which roles?

Whatever takes something away from a user ends their sessions in the same transaction. Their tokens hold no more than
they do, which `service.authenticate` looks up each time.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from shoal_fleet.access.models import LoginSession, User, UserRole
from shoal_fleet.access.passwords import Passwords, check_password
from shoal_fleet.access.projects import check_project
from shoal_fleet.access.roles import NAME, Held, check_name
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotAllowed, NotFound


class ListedUser(NamedTuple):
    """A user with what they hold."""

    row: User
    held: Sequence[Held]


def list_users(session: Session) -> list[ListedUser]:
    """All users by name, disabled ones last."""
    rows = session.scalars(select(User).order_by(User.disabled_at.is_not(None), User.name)).all()
    return [ListedUser(row, list_roles(session, row)) for row in rows]


def find_user(session: Session, name: str) -> User:
    """The user of that name.

    Raises:
        NotFound: there is none.
    """
    user = find_by_name(session, name)
    if user is None:
        raise NotFound(f"user {name[:200]!r}: there is none of that name; look at `shoal user list`")
    return user


def find_by_name(session: Session, name: str) -> User | None:
    """The user of that name, if there is one."""
    return session.scalar(select(User).where(User.name == name))


def list_roles(session: Session, user: User) -> list[Held]:
    """What a user holds, by project."""
    rows = session.scalars(
        select(UserRole).where(UserRole.user_id == user.id).order_by(UserRole.project, UserRole.role)
    )
    return [Held(row.project, row.role) for row in rows]


def add_user(
    session: Session, *, name: str, password: str, held: Iterable[Held], passwords: Passwords, actor: str, now: float
) -> User:
    """Make a user.

    Raises:
        Refused: a name that can't be one, or a password that is too short or too long.
        Conflict: there is one of that name.
        NotFound: no such project.
    """
    check_name(name, pattern=NAME, what="user")
    check_password(password)
    password_hash = passwords.hash(password)
    with writing(session):
        if find_by_name(session, name) is not None:
            raise Conflict(f"user {name!r}: there is one of that name")
        user = User(name=name, password_hash=password_hash, subject=None, created_at=now, disabled_at=None)
        session.add(user)
        session.flush()
        wanted = _give(session, user, held)
        audit.append(session, actor=actor, action="user.added", subject=name, detail={"roles": wanted}, now=now)
    return user


def take_from_provider(session: Session, *, subject: str, name: str, held: Collection[Held], now: float) -> User:
    """The user whom an identity provider vouches for, with the roles that it gives them, in the caller's transaction.

    Who comes for the first time is made a user.

    Raises:
        NotAllowed: no role, or disabled here.
        Conflict: the name is that of another user.
        Refused: a name that can't be one.
        NotFound: no such project.
    """
    user = session.scalar(select(User).where(User.subject == subject))
    if user is not None and user.disabled_at is not None:
        raise NotAllowed(f"user {user.name!r}: is disabled here")
    if not held:
        raise NotAllowed(f"user {name[:80]!r}: none of the groups that the provider names has a role here")
    if user is None:
        check_name(name, pattern=NAME, what="user")
        if find_by_name(session, name) is not None:
            raise Conflict(f"user {name!r}: is another one, whom the identity provider doesn't vouch for")
        user = User(name=name, password_hash=None, subject=subject, created_at=now, disabled_at=None)
        session.add(user)
        session.flush()
    if set(list_roles(session, user)) != set(held):
        detail = {"roles": _replace_roles(session, user, held), "by": "provider"}
        audit.append(session, actor=audit.FLEET, action="user.roles_changed", subject=user.name, detail=detail, now=now)
    return user


def drop_from_provider(session: Session, *, subject: str, now: float) -> None:
    """Take every role from a user whom the provider gives none any more, in the caller's transaction."""
    user = session.scalar(select(User).where(User.subject == subject))
    if user is not None and list_roles(session, user):
        detail = {"roles": _replace_roles(session, user, []), "by": "provider"}
        audit.append(session, actor=audit.FLEET, action="user.roles_changed", subject=user.name, detail=detail, now=now)


def set_roles(session: Session, name: str, held: Iterable[Held], *, actor: str, now: float) -> User:
    """Give a user these roles and no others.

    Raises:
        NotFound: no such user, or no such project.
    """
    with writing(session):
        user = find_user(session, name)
        wanted = _replace_roles(session, user, held)
        audit.append(session, actor=actor, action="user.roles_changed", subject=name, detail={"roles": wanted}, now=now)
    return user


def set_password(session: Session, name: str, password: str, *, passwords: Passwords, actor: str, now: float) -> User:
    """Give a user another password.

    Raises:
        Refused: too short or too long.
        NotFound: no such user.
        Conflict: an identity provider vouches for this one.
    """
    check_password(password)
    password_hash = passwords.hash(password)
    with writing(session):
        user = find_user(session, name)
        if user.subject is not None:
            raise Conflict(f"user {name!r}: logs in at the identity provider, and has no password here")
        user.password_hash = password_hash
        _end_sessions(session, user)
        audit.append(session, actor=actor, action="user.password_changed", subject=name, detail={}, now=now)
    return user


def set_disabled(session: Session, name: str, *, is_disabled: bool, actor: str, now: float) -> User:
    """Keep a user and their tokens out, or let them in again. Their name and roles stay.

    Raises:
        NotFound: no such user.
        Conflict: it is so already.
    """
    with writing(session):
        user = find_user(session, name)
        if (user.disabled_at is not None) == is_disabled:
            raise Conflict(f"user {name!r}: is {'disabled' if is_disabled else 'not disabled'} already")
        user.disabled_at = now if is_disabled else None
        _end_sessions(session, user)
        action = "user.disabled" if is_disabled else "user.enabled"
        audit.append(session, actor=actor, action=action, subject=name, detail={}, now=now)
    return user


def _replace_roles(session: Session, user: User, held: Iterable[Held]) -> list[str]:
    """Returns the roles in words."""
    session.execute(delete(UserRole).where(UserRole.user_id == user.id))
    wanted = _give(session, user, held)
    _end_sessions(session, user)
    return wanted


def _give(session: Session, user: User, held: Iterable[Held]) -> list[str]:
    wanted = sorted(set(held), key=lambda one: (one.project, one.role.value))
    for one in wanted:
        check_project(session, one.project)
        session.add(UserRole(user_id=user.id, project=one.project, role=one.role))
    session.flush()
    return [str(one) for one in wanted]


def _end_sessions(session: Session, user: User) -> None:
    session.execute(delete(LoginSession).where(LoginSession.user_id == user.id))
