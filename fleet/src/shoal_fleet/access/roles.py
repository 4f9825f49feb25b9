"""What may who do where?

Rules only. A role counts in one project, or in all of them where the project is EVERYWHERE.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import NamedTuple

from shoal_fleet.errors import Refused, WrongRole

EVERYWHERE = "*"
"""Stands for every project, also those that are yet to be made."""
DEFAULT_PROJECT = "default"
"""The project that every fleet begins with."""

USER = "user:"
"""How a person's name begins who is a user; other people are the fleet itself and accounts of the server."""

NAME = r"[A-Za-z0-9][A-Za-z0-9@+._-]{0,62}"
"""Pattern of the names of users and tokens."""
PROJECT = r"[a-z0-9][a-z0-9-]{0,62}"
"""Pattern of the names of projects."""

Reach = frozenset[str]
"""Names of projects; with EVERYWHERE among them, all."""


class Role(enum.Enum):
    """What somebody may do."""

    VIEWER = "viewer"
    """Read."""
    OPERATOR = "operator"
    """Devices, enrolment, rollouts, secrets of configuration."""
    RELEASER = "releaser"
    """Sealed files, releases, signed metadata."""
    ADMIN = "admin"
    """All of these, and who else may."""


_INCLUDED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.OPERATOR: frozenset({Role.OPERATOR, Role.VIEWER}),
    Role.RELEASER: frozenset({Role.RELEASER, Role.VIEWER}),
    Role.ADMIN: frozenset(Role),
}
"""What the holder of a role may do; operator and releaser are apart on purpose."""


class Held(NamedTuple):
    """One role in one project."""

    project: str
    role: Role

    def __str__(self) -> str:
        return f"{self.role.value} of {self.project}"


class Known(NamedTuple):
    """Somebody who was recognised."""

    actor: str
    """As the audit log names them: `user:anna` or `token:ci`."""
    held: frozenset[Held]
    person: str
    """Who answers for what they do: of a token, who made it. Empty where that isn't known."""
    ends_at: float | None
    """When their token ends, in Unix seconds; None for one without an end, and for people."""


def check_name(name: str, *, pattern: str, what: str) -> None:
    """Make sure that something new has a name that is safe in a path, a table and a log.

    Raises:
        Refused: it hasn't.
    """
    if re.fullmatch(pattern, name) is None:
        raise Refused(f"{what} {name[:80]!r}: expected a name of the pattern {pattern}")


def reach(held: Iterable[Held], needed: Role) -> Reach:
    """The projects in which what is held amounts to a role."""
    return frozenset(one.project for one in held if needed in _INCLUDED[one.role])


def cut(held: Iterable[Held], *, limit: Iterable[Held]) -> frozenset[Held]:
    """What is held, as far as `limit` amounts to it, too."""
    both: dict[str, set[Role]] = {EVERYWHERE: set()}
    for one, other in product(held, limit):
        if EVERYWHERE in (one.project, other.project) or one.project == other.project:
            project = other.project if one.project == EVERYWHERE else one.project
            both.setdefault(project, set()).update(_INCLUDED[one.role] & _INCLUDED[other.role])
    return frozenset(
        Held(project, role)
        for project, roles in both.items()
        for role in roles
        if not any(role in _INCLUDED[other] for other in roles - {role})
        and (project == EVERYWHERE or role not in both[EVERYWHERE])
    )


def is_within(project: str, allowed: Reach) -> bool:
    """Whether a project is reached."""
    return EVERYWHERE in allowed or project in allowed


def check_within(project: str, allowed: Reach) -> None:
    """Make sure that a project is reached. The answer is the same whether there is such a project or not.

    Raises:
        WrongRole: it isn't.
    """
    if not is_within(project, allowed):
        raise WrongRole(f"project {project[:80]!r}: your role doesn't count there; it counts in {_words(allowed)}")


def choose_project(wanted: str | None, allowed: Reach) -> str:
    """The project that something new goes into: the one that is named, else the only one that comes into question.

    Raises:
        WrongRole: the one that is named isn't reached.
        Refused: several come into question.
    """
    if wanted is not None:
        check_within(wanted, allowed)
        return wanted
    if EVERYWHERE in allowed:
        return DEFAULT_PROJECT
    if len(allowed) == 1:
        return next(iter(allowed))
    raise Refused(f"project: expected one to be named, as your role counts in {_words(allowed)}")


def _words(allowed: Reach) -> str:
    return ", ".join(sorted(allowed)) or "no project"
