"""How is the server started? `shoal-fleet init | serve | health | kek | keys | user | token | project | policy`"""

import argparse
import asyncio
import logging
import os
import sys
import time
from pathlib import Path

import msgspec

from shoal_fleet import authority_cli, health_cli, kek_cli, keys_cli, people_cli
from shoal_fleet.app import serve
from shoal_fleet.broker.errors import BrokerError
from shoal_fleet.configuration import load_configuration
from shoal_fleet.enrolment.service import Addresses
from shoal_fleet.errors import BadConfiguration, FleetError
from shoal_fleet.pki.errors import PkiError
from shoal_fleet.service_manager import notify
from shoal_fleet.state import StatePaths, initialise, unlock

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
    for command in (init, serving):
        command.add_argument("--kek", metavar="URI", help=kek_cli.KEK_HELP)
        command.add_argument("--state", type=Path, default=_default_state(), help="folder (SHOAL_STATE): %(default)s")
    authority_cli.add_parsers(commands, state=_default_state())
    health_cli.add_parsers(commands, state=_default_state())
    kek_cli.add_parsers(commands, state=_default_state())
    keys_cli.add_parsers(commands, state=_default_state())
    people_cli.add_parsers(commands, state=_default_state())
    return parser


def _init(arguments: argparse.Namespace, paths: StatePaths) -> None:
    configuration = load_configuration(paths.configuration, environment=os.environ, options={"kek": arguments.kek})
    vault = unlock(paths, kek_uri=configuration.kek, now=time.time())
    _print(initialise(paths, now=time.time(), vault=vault))


def _serve(arguments: argparse.Namespace, paths: StatePaths) -> None:
    names = ("bind", "host", "port", "devices_port", "broker_port", "kek")
    options = {name: getattr(arguments, name) for name in names}
    configuration = load_configuration(paths.configuration, environment=os.environ, options=options)
    vault = unlock(paths, kek_uri=configuration.kek, now=time.time())
    made = initialise(paths, now=time.time(), vault=vault)
    if made.token is not None:
        _print(made)
    asyncio.run(serve(paths, configuration, vault=vault, clock=time.time, announce=_announce))


def _announce(addresses: Addresses) -> None:
    _print(addresses)
    notify("READY=1")
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
