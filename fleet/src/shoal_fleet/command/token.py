"""Which API tokens count, and for what? `shoal token …`"""

import argparse
import sys
from urllib.parse import quote

from shoal_fleet.command.client import Client
from shoal_fleet.command.output import Columns, print_result, print_table, printable, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.user import add_scope_options, describe_roles
from shoal_fleet.command.views import ApiToken, MadeToken, parse

_PATH = "/api/v1/tokens"

_COLUMNS: Columns[ApiToken] = {
    "NAME": lambda token: token.name,
    "ROLES": lambda token: describe_roles(token.roles),
    "MADE (UTC)": lambda token: when(token.created_at),
    "BY": lambda token: token.made_by,
    "LAST USED (UTC)": lambda token: when(token.last_used_at),
    "ENDS (UTC)": lambda token: when(token.expires_at),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal token`."""
    actions = add_group(commands, "token", summary="API tokens, for programs", example="shoal token list")
    add_command(
        actions,
        "list",
        summary="the tokens in use",
        description="The tokens in use, with what they may do and when they were last used. None of them can be read.",
        example="shoal token list --json",
        run=_list,
    )
    add = add_command(
        actions,
        "add",
        summary="make a token",
        description="Make a token. It is printed this once, and can't be read again.",
        example="shoal token add ci --role releaser --project yard --valid-for 2592000",
        run=_add,
    )
    add_scope_options(add)
    add.add_argument(
        "--valid-for",
        type=int,
        metavar="SECONDS",
        help="default: until it is revoked, or the token ends that you are logged in with",
    )
    revoke = add_command(
        actions,
        "revoke",
        summary="take a token back",
        description="Take a token back: the next request with it is refused.",
        example="shoal token revoke ci",
        run=_revoke,
    )
    for parser in (add, revoke):
        parser.add_argument("name", help="by which lists and the audit log know the token")


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(_PATH)
    rows = parse(shown, list[ApiToken], what="tokens")
    print_table(shown, rows, _COLUMNS, as_json=arguments.json)


def _add(arguments: argparse.Namespace) -> None:
    body = {
        "name": arguments.name,
        "project": arguments.project,
        "roles": list(dict.fromkeys(arguments.role)),
        "ttl_s": arguments.valid_for,
    }
    with Client() as client:
        shown = client.post(_PATH, body)
    made = parse(shown, MadeToken, what="token")
    end = "it is revoked" if made.expires_at is None else f"{when(made.expires_at)} UTC"
    print(f"counts until {end}; keep it, it can't be read again", file=sys.stderr)
    print_result(shown, as_json=arguments.json, text=made.token)


def _revoke(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"{_PATH}/{quote(arguments.name, safe='')}/revoke", {})
    print_result(shown, as_json=arguments.json, text=printable(f"{arguments.name} is revoked"))
