"""How is the server started? `shoal-fleet init | serve | token`"""

import argparse
import asyncio
import logging
import os
import sys
import time
from pathlib import Path

import msgspec

from shoal_fleet.access.models import Role
from shoal_fleet.access.service import create_token, revoke_token
from shoal_fleet.app import serve
from shoal_fleet.broker.errors import BrokerError
from shoal_fleet.configuration import load_configuration
from shoal_fleet.database import make_sessions
from shoal_fleet.enrolment.service import Addresses
from shoal_fleet.errors import BadConfiguration, FleetError
from shoal_fleet.pki.errors import PkiError
from shoal_fleet.state import StatePaths, initialise, open_database

EXIT_FAILED = 1
EXIT_USAGE = 2


def main() -> int:
    """Run one command; returns the exit code: 1 where it failed, 2 where it was called or configured wrongly."""
    arguments = _make_parser().parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "uvicorn.error"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        arguments.run(arguments, StatePaths(arguments.state))
    except BadConfiguration as error:
        print(f"shoal-fleet: {error}", file=sys.stderr)
        return EXIT_USAGE
    except (FleetError, PkiError, BrokerError, OSError) as error:
        print(f"shoal-fleet: {error}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shoal-fleet", description="The server of a Shoal fleet.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    init = commands.add_parser("init", help="make keys, authority and database; prints the first API token, once")
    init.set_defaults(run=_init)
    serving = commands.add_parser("serve", help="run the server and its broker; makes the fleet first if need be")
    serving.add_argument("--bind", help="IP address of all listeners")
    serving.add_argument("--host", help="name or address under which boards and operators reach this machine")
    for name in ("port", "devices-port", "broker-port"):
        serving.add_argument(f"--{name}", type=int, help="0: any free one, which is then kept")
    serving.set_defaults(run=_serve)
    token = commands.add_parser("token", help="make or revoke an API token")
    actions = token.add_subparsers(required=True, metavar="ACTION")
    add = actions.add_parser("add", help="make a token; it is printed this once")
    add.add_argument("--role", choices=[role.value for role in Role], default=Role.READ.value)
    add.set_defaults(run=_add_token)
    revoke = actions.add_parser("revoke", help="take a token back")
    revoke.set_defaults(run=_revoke_token)
    for command in (add, revoke):
        command.add_argument("name")
    for command in (init, serving, add, revoke):
        command.add_argument("--state", type=Path, default=_default_state(), help="folder (SHOAL_STATE): %(default)s")
    return parser


def _init(_arguments: argparse.Namespace, paths: StatePaths) -> None:
    _print(initialise(paths, now=time.time()))


def _serve(arguments: argparse.Namespace, paths: StatePaths) -> None:
    names = ("bind", "host", "port", "devices_port", "broker_port")
    options = {name: getattr(arguments, name) for name in names}
    configuration = load_configuration(paths.configuration, environment=os.environ, options=options)
    made = initialise(paths, now=time.time())
    if made.token is not None:
        _print(made)
    asyncio.run(serve(paths, configuration, clock=time.time, announce=_announce))


def _add_token(arguments: argparse.Namespace, paths: StatePaths) -> None:
    engine = open_database(paths)
    with make_sessions(engine)() as session:
        print(create_token(session, name=arguments.name, role=Role(arguments.role), now=time.time()))
    engine.dispose()


def _revoke_token(arguments: argparse.Namespace, paths: StatePaths) -> None:
    engine = open_database(paths)
    with make_sessions(engine)() as session:
        revoke_token(session, arguments.name, now=time.time())
    engine.dispose()


def _announce(addresses: Addresses) -> None:
    _print(addresses)
    logging.getLogger(__name__).info("serving at %s", addresses.operators_url)


def _print(result: msgspec.Struct) -> None:
    """One line of JSON, at once, for programs that wait for it."""
    print(msgspec.json.encode(result).decode(), flush=True)


def _default_state() -> Path:
    if "SHOAL_STATE" in os.environ:
        return Path(os.environ["SHOAL_STATE"])
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "shoal-fleet"


if __name__ == "__main__":
    sys.exit(main())
