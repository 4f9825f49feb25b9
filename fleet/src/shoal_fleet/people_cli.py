"""Who may use the fleet, as said on the server itself? `shoal-fleet user … | token … | project … | policy …`

This needs no login: who can write the state folder can do everything anyway. So the first user is made here, and a
password that was lost is replaced here, and a policy of approvals that nobody can satisfy is changed here.
"""

import argparse
import getpass
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.orm import Session

from shoal_fleet.access import projects, service, users
from shoal_fleet.access.passwords import Passwords
from shoal_fleet.access.roles import EVERYWHERE, Held, Role
from shoal_fleet.database import make_sessions
from shoal_fleet.errors import Refused
from shoal_fleet.rollouts.policy import MAX_APPROVALS, set_approvals_needed
from shoal_fleet.state import StatePaths, open_database

_OLD_ROLES = {"read": Role.VIEWER}
"""Words that were roles once; scripts may still have them."""
_Run = Callable[[argparse.Namespace, StatePaths], None]


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state: Path) -> None:
    """Add the four words; `state` is the default folder."""
    user = _add_word(commands, "user", "the people who may use the fleet", "shoal-fleet user add anna --role admin")
    add = _add_action(user, "add", "make a user; asks for the password", _add_user, state=state)
    _add_scope(add, default=None)
    roles = _add_action(user, "roles", "give a user this role, or these, and no others", _set_roles, state=state)
    _add_scope(roles, default=None)
    passwd = _add_action(user, "passwd", "give a user another password; asks for it", _set_password, state=state)
    for command in (add, passwd):
        command.add_argument(
            "--password-file", type=Path, metavar="FILE", help="file with the password; - reads it from standard input"
        )
    _add_action(user, "disable", "keep a user out, at once", _disable_user, state=state)
    _add_action(user, "enable", "let a user in again", _enable_user, state=state)
    token = _add_word(commands, "token", "make or revoke an API token", "shoal-fleet token add ci --role releaser")
    made = _add_action(token, "add", "make a token; it is printed this once", _add_token, state=state)
    _add_scope(made, default=[Role.VIEWER.value])
    made.add_argument("--valid-for", type=int, metavar="SECONDS", help="default: until it is revoked")
    _add_action(token, "revoke", "take a token back", _revoke_token, state=state)
    project = _add_word(
        commands, "project", "devices and releases that belong together", "shoal-fleet project add yard"
    )
    _add_action(project, "add", "make a project", _add_project, state=state)
    policy = _add_word(commands, "policy", "how many people must want a rollout", "shoal-fleet policy set '*' 1")
    changed = _add_action(policy, "set", "of the project NAME, or * for all; nobody is asked", _set_policy, state=state)
    changed.add_argument("approvals", type=int, choices=range(MAX_APPROVALS + 1), metavar="APPROVALS")


def _add_word(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str, example: str
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    word = commands.add_parser(
        name, help=summary, epilog=f"example:\n  {example}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return word.add_subparsers(required=True, metavar="ACTION")


def _add_action(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, summary: str, run: _Run, *, state: Path
) -> argparse.ArgumentParser:
    action = actions.add_parser(name, help=summary)
    action.set_defaults(run=run)
    action.add_argument("name")
    action.add_argument("--state", type=Path, default=state, help="folder (SHOAL_STATE): %(default)s")
    return action


def _add_scope(parser: argparse.ArgumentParser, *, default: list[str] | None) -> None:
    words = [role.value for role in Role]
    parser.add_argument(
        "--role",
        action="append",
        choices=[*words, *_OLD_ROLES],
        metavar="{" + ",".join(words) + "}",
        required=default is None,
        help="may be given more than once",
    )
    parser.add_argument("--project", default=EVERYWHERE, help="where the role counts (default: in every project)")


def _add_user(arguments: argparse.Namespace, paths: StatePaths) -> None:
    password = _read_password(arguments.password_file)
    with _opened(paths) as session:
        users.add_user(
            session,
            name=arguments.name,
            password=password,
            held=[Held(arguments.project, role) for role in _roles(arguments)],
            passwords=Passwords(),
            actor=_actor(),
            now=time.time(),
        )


def _set_roles(arguments: argparse.Namespace, paths: StatePaths) -> None:
    held = [Held(arguments.project, role) for role in _roles(arguments)]
    with _opened(paths) as session:
        users.set_roles(session, arguments.name, held, actor=_actor(), now=time.time())


def _set_password(arguments: argparse.Namespace, paths: StatePaths) -> None:
    password = _read_password(arguments.password_file)
    with _opened(paths) as session:
        users.set_password(session, arguments.name, password, passwords=Passwords(), actor=_actor(), now=time.time())


def _disable_user(arguments: argparse.Namespace, paths: StatePaths) -> None:
    with _opened(paths) as session:
        users.set_disabled(session, arguments.name, is_disabled=True, actor=_actor(), now=time.time())


def _enable_user(arguments: argparse.Namespace, paths: StatePaths) -> None:
    with _opened(paths) as session:
        users.set_disabled(session, arguments.name, is_disabled=False, actor=_actor(), now=time.time())


def _add_token(arguments: argparse.Namespace, paths: StatePaths) -> None:
    now = time.time()
    with _opened(paths) as session:
        token = service.create_token(
            session,
            name=arguments.name,
            roles=_roles(arguments),
            project=arguments.project,
            expires_at=None if arguments.valid_for is None else now + arguments.valid_for,
            actor=_actor(),
            now=now,
        )
    print(token)


def _revoke_token(arguments: argparse.Namespace, paths: StatePaths) -> None:
    with _opened(paths) as session:
        service.revoke_token(session, arguments.name, actor=_actor(), now=time.time())


def _add_project(arguments: argparse.Namespace, paths: StatePaths) -> None:
    with _opened(paths) as session:
        projects.create_project(session, arguments.name, actor=_actor(), now=time.time())


def _set_policy(arguments: argparse.Namespace, paths: StatePaths) -> None:
    with _opened(paths) as session:
        set_approvals_needed(
            session, arguments.approvals, project=arguments.name, by=_actor(), now=time.time(), is_forced=True
        )


@contextmanager
def _opened(paths: StatePaths) -> Iterator[Session]:
    engine = open_database(paths)
    try:
        with make_sessions(engine)() as session:
            yield session
    finally:
        engine.dispose()


def _roles(arguments: argparse.Namespace) -> list[Role]:
    words = arguments.role or [Role.VIEWER.value]
    return [_OLD_ROLES.get(word) or Role(word) for word in words]


def _actor() -> str:
    """Who uses the server's own command line: an account of the machine."""
    return f"host:{getpass.getuser()}"


def _read_password(path: Path | None) -> str:
    if path is None:
        if not sys.stdin.isatty():
            raise Refused("no terminal to ask for the password: name a file with --password-file, or - for its input")
        first, second = getpass.getpass("Password: "), getpass.getpass("Once more: ")
        if first != second:
            raise Refused("password: the two aren't the same; nothing was changed")
        return first
    text = sys.stdin.read() if str(path) == "-" else path.read_text()
    return text.rstrip("\r\n")
