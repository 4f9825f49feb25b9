"""Who may use the fleet? `shoal user …`"""

import argparse
import getpass
import sys
from pathlib import Path
from urllib.parse import quote

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import Columns, print_result, print_table, printable, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.views import RoleInProject, User, parse

ROLES = ("viewer", "operator", "releaser", "admin")
EVERYWHERE = "*"
_PATH = "/api/v1/users"

_COLUMNS: Columns[User] = {
    "NAME": lambda user: user.name,
    "ROLES": lambda user: describe_roles(user.roles),
    "LOGS IN": lambda user: "at the provider" if user.is_from_provider else "with a password",
    "STATE": lambda user: "active" if user.disabled_at is None else "disabled",
    "MADE (UTC)": lambda user: when(user.created_at),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal user`."""
    actions = add_group(commands, "user", summary="the people who may use the fleet", example="shoal user list")
    add_command(
        actions,
        "list",
        summary="all users",
        description="All users with their roles, disabled ones last.",
        example="shoal user list --json",
        run=_list,
    )
    add = add_command(
        actions,
        "add",
        summary="make a user",
        description="Make a user, who logs in with a browser. Asks for the password.",
        example="shoal user add anna --role operator --project yard",
        run=_add,
    )
    roles = add_command(
        actions,
        "roles",
        summary="give a user other roles",
        description="Give a user these roles and no others. They must log in again.",
        example="shoal user roles anna --role operator --role releaser",
        run=_set_roles,
    )
    passwd = add_command(
        actions,
        "passwd",
        summary="give a user another password",
        description="Give a user another password. They must log in again.",
        example="shoal user passwd anna --password-file -",
        run=_set_password,
    )
    disable = add_command(
        actions,
        "disable",
        summary="keep a user out",
        description="Keep a user out, at once: their sessions end.",
        example="shoal user disable anna",
        run=lambda arguments: _change(arguments, "disable", "is disabled"),
    )
    enable = add_command(
        actions,
        "enable",
        summary="let a user in again",
        description="Let a user in again who was disabled.",
        example="shoal user enable anna",
        run=lambda arguments: _change(arguments, "enable", "may log in again"),
    )
    for parser in (add, roles, passwd, disable, enable):
        parser.add_argument("name", help="by which the user logs in")
    for parser in (add, roles):
        add_scope_options(parser)
    for parser in (add, passwd):
        parser.add_argument(
            "--password-file", type=Path, metavar="FILE", help="file with the password; - reads it from standard input"
        )


def add_scope_options(parser: argparse.ArgumentParser) -> None:
    """What somebody may do, and where."""
    parser.add_argument("--role", action="append", choices=ROLES, required=True, help="may be given more than once")
    parser.add_argument("--project", default=EVERYWHERE, help="where the role counts (default: in every project)")


def describe_roles(roles: tuple[RoleInProject, ...]) -> str:
    """Roles in words, by project."""
    return ", ".join(f"{one.role} of {'every project' if one.project == EVERYWHERE else one.project}" for one in roles)


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(_PATH)
    rows = parse(shown, list[User], what="users")
    print_table(shown, rows, _COLUMNS, as_json=arguments.json, empty="no users yet: `shoal user add NAME --role ROLE`")


def _add(arguments: argparse.Namespace) -> None:
    body = {"name": arguments.name, "password": _read_password(arguments.password_file), "roles": _roles(arguments)}
    with Client() as client:
        shown = client.post(_PATH, body)
    user = parse(shown, User, what="user")
    print_result(shown, as_json=arguments.json, text=printable(f"{user.name}: {describe_roles(user.roles)}"))


def _set_roles(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"{_path(arguments.name)}/roles", {"roles": _roles(arguments)})
    user = parse(shown, User, what="user")
    print_result(shown, as_json=arguments.json, text=printable(f"{user.name}: {describe_roles(user.roles)}"))


def _set_password(arguments: argparse.Namespace) -> None:
    body = {"password": _read_password(arguments.password_file)}
    with Client() as client:
        shown = client.post(f"{_path(arguments.name)}/password", body)
    print_result(shown, as_json=arguments.json, text=printable(f"{arguments.name} has another password"))


def _change(arguments: argparse.Namespace, action: str, words: str) -> None:
    with Client() as client:
        shown = client.post(f"{_path(arguments.name)}/{action}", {})
    print_result(shown, as_json=arguments.json, text=printable(f"{arguments.name} {words}"))


def _roles(arguments: argparse.Namespace) -> list[dict[str, str]]:
    return [{"project": arguments.project, "role": role} for role in dict.fromkeys(arguments.role)]


def _path(name: str) -> str:
    return f"{_PATH}/{quote(name, safe='')}"


def _read_password(path: Path | None) -> str:
    if path is None:
        if not sys.stdin.isatty():
            raise UsageError(
                "no terminal to ask for the password: name a file with --password-file, or - for its input"
            )
        first, second = getpass.getpass("Password: "), getpass.getpass("Once more: ")
        if first != second:
            raise UsageError("password: the two aren't the same; nothing was sent")
        return first
    try:
        return (sys.stdin.read() if str(path) == "-" else path.read_text()).rstrip("\r\n")
    except OSError as error:
        raise UsageError(f"--password-file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"--password-file {path}: expected text") from None
