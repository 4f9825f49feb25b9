"""How is the key-encryption key chosen and changed, on the server itself? `shoal-fleet kek show | rotate`"""

import argparse
import os
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from shoal_fleet import kek_rotation
from shoal_fleet.configuration import Configuration, load_configuration
from shoal_fleet.database import make_sessions
from shoal_fleet.kek.vault import Vault
from shoal_fleet.state import StatePaths, open_database, unlock

KEK_HELP = "URI of the key-encryption key (SHOAL_KEK): file:PATH, passphrase:SOURCE, pkcs11:…, or that of a KMS"


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state: Path) -> None:
    """Add the word `kek`; `state` is the default folder."""
    word = commands.add_parser(
        "kek",
        help="the key that all secrets of the fleet are wrapped under",
        epilog="example:\n  shoal-fleet kek rotate --to passphrase:credential:shoal-kek",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = word.add_subparsers(required=True, metavar="ACTION")
    show = actions.add_parser(
        "show",
        help="which key counts, and whether it lies beside the database",
        epilog="example:\n  shoal-fleet kek show --json",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument("--json", action="store_true", help="print the result as JSON")
    show.set_defaults(run=_show)
    rotate = actions.add_parser(
        "rotate",
        help="wrap every secret anew, under another key; the server must be stopped",
        epilog="example:\n  shoal-fleet kek rotate --to file:/run/keys/shoal-kek",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rotate.add_argument("--to", required=True, metavar="URI", help="the new key; a file that isn't there is made")
    rotate.add_argument("--kek", metavar="URI", help=f"the present key, where it isn't the configured one: {KEK_HELP}")
    rotate.add_argument("--json", action="store_true", help="print the result as JSON")
    rotate.set_defaults(run=_rotate)
    for command in (show, rotate):
        command.add_argument("--state", type=Path, default=state, help="folder (SHOAL_STATE): %(default)s")


def add_kek_option(command: argparse.ArgumentParser) -> None:
    """Add `--kek` to a command that makes private keys, for `unlock_configured`."""
    command.add_argument("--kek", metavar="URI", help=f"where it isn't the configured one: {KEK_HELP}")


def unlock_configured(paths: StatePaths, arguments: argparse.Namespace, *, now: float) -> Vault:
    """The vault, opened by the key of `--kek`, else by the configured one, else by the one that the database names.

    Raises:
        BadConfiguration: the key can't be reached, or isn't the one.
    """
    configured = load_configuration(paths.configuration, environment=os.environ, options={"kek": arguments.kek})
    return unlock(paths, kek_uri=configured.kek, now=now)


def _show(arguments: argparse.Namespace, paths: StatePaths) -> None:
    engine = open_database(paths)
    try:
        with make_sessions(engine)() as session:
            view = kek_rotation.show(session, paths)
    finally:
        engine.dispose()
    since = datetime.fromtimestamp(view.since, UTC)
    where = "beside the database: leave it out of back-ups" if view.is_beside_database else "outside the state folder"
    _print(
        view, arguments, f"{view.kek}\n{where}\nall secrets are wrapped under it since {since:%Y-%m-%d %H:%M:%S} UTC"
    )


def _rotate(arguments: argparse.Namespace, paths: StatePaths) -> None:
    configured = load_configuration(paths.configuration, environment=os.environ, options={"kek": arguments.kek})
    rotated = kek_rotation.rotate(paths, kek_uri=_present(configured, arguments), to=arguments.to, now=time.time())
    rows = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in rotated.rewrapped.items())
    _print(rotated, arguments, f"{rotated.kek}: wraps {rows} now; nothing is under {rotated.before} any more")
    if not rotated.is_scrubbed:
        print("the database's files still hold rows as they were: the next start removes them", file=sys.stderr)
    if configured.kek and configured.kek != arguments.to:
        print(
            f"the configuration names {configured.kek}: set kek to {arguments.to!r} before the next start",
            file=sys.stderr,
        )


def _present(configured: Configuration, arguments: argparse.Namespace) -> str:
    """The configuration may name the new key already: then the database says which the present one is."""
    return "" if configured.kek == arguments.to and arguments.kek is None else configured.kek


def _print(result: msgspec.Struct, arguments: argparse.Namespace, text: str) -> None:
    print(msgspec.json.encode(result).decode() if arguments.json else text, flush=True)
