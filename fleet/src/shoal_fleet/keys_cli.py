"""How are the keys replaced with which the fleet signs? `shoal-fleet keys rotate`"""

import argparse
from pathlib import Path

import msgspec

from shoal_fleet.errors import NotFound
from shoal_fleet.signing_keys import make_next
from shoal_fleet.state import StatePaths


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state: Path) -> None:
    """Add `shoal-fleet keys`. `state` is the default state folder."""
    keys = commands.add_parser("keys", help="the keys with which the fleet signs")
    actions = keys.add_subparsers(required=True, metavar="ACTION")
    rotate = actions.add_parser(
        "rotate",
        help="make new snapshot, timestamp and assignment keys; prints their public halves",
        description="Make new snapshot, timestamp and assignment keys beside those in use. They count once the\n"
        "publisher has named them: `shoal keys rotate --fleet`. It can be run again, also while the server runs.",
        epilog="example:\n  shoal-fleet keys rotate --state /var/lib/shoal-fleet",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    rotate.add_argument("--state", type=Path, default=state, help="folder (SHOAL_STATE): %(default)s")
    rotate.set_defaults(run=_rotate)


def _rotate(_arguments: argparse.Namespace, paths: StatePaths) -> None:
    if not paths.keys.is_dir():
        raise NotFound(f"{paths.folder}: expected the state folder of a fleet; `shoal-fleet init` makes one")
    print(msgspec.json.encode(make_next(paths.keys).public()).decode(), flush=True)
