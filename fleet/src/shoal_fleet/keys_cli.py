"""How are the keys replaced with which the fleet signs? `shoal-fleet keys rotate`"""

import argparse
import time
from pathlib import Path

import msgspec

from shoal_fleet.database import make_sessions, writing
from shoal_fleet.kek_cli import add_kek_option, unlock_configured
from shoal_fleet.signing_keys import make_next
from shoal_fleet.state import StatePaths, check_made, open_database, open_keys


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state: Path) -> None:
    """Add `shoal-fleet keys`. `state` is the default state folder."""
    keys = commands.add_parser("keys", help="the keys with which the fleet signs")
    actions = keys.add_subparsers(required=True, metavar="ACTION")
    rotate = actions.add_parser(
        "rotate",
        help="make new snapshot, timestamp and assignment keys; prints their public halves",
        description="Make new snapshot, timestamp and assignment keys beside those in use. They count once the\n"
        "publisher has named them: `shoal keys rotate --fleet`. It can be run again, also while the server runs.\n"
        "It needs the key-encryption key, under which the new ones are kept.",
        epilog="example:\n  shoal-fleet keys rotate --state /var/lib/shoal-fleet",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_kek_option(rotate)
    rotate.add_argument("--state", type=Path, default=state, help="folder (SHOAL_STATE): %(default)s")
    rotate.set_defaults(run=_rotate)


def _rotate(arguments: argparse.Namespace, paths: StatePaths) -> None:
    check_made(paths)
    now = time.time()
    vault = unlock_configured(paths, arguments, now=now)
    engine = open_database(paths)
    try:
        sessions = make_sessions(engine)
        open_keys(paths, sessions, vault=vault, now=now)
        with sessions() as session, writing(session):
            public = make_next(session, vault=vault, now=now).public()
    finally:
        engine.dispose()
    print(msgspec.json.encode(public).decode(), flush=True)
