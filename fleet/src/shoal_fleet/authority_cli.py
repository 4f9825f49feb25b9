"""How does one certificate authority follow another? `shoal-fleet authority status | rotate | retire`

`rotate` makes the next authority, which issues from the server's next start on. Boards that know only the one before
find their fleet by the link between the two, and learn of the new one when they renew. `retire` ends the old one, once
no device has a certificate by it any more, or at once where its key may be in wrong hands: a device that still has one
comes back by proof of its identity key.
"""

import argparse
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from shoal_fleet.audit import service as audit
from shoal_fleet.database import make_sessions, writing
from shoal_fleet.devices.service import count_certificates
from shoal_fleet.errors import Conflict
from shoal_fleet.pki.authorities import Authorities, Generation, add_successor, retire
from shoal_fleet.state import StatePaths, lock_state, open_database


class AuthorityStatus(msgspec.Struct, frozen=True):
    """One authority, for scripts."""

    number: int
    fingerprint: str
    not_after: str
    state: str
    """`issues`, `followed` (what it issued still counts) or `retired`."""
    certificates: int
    """By it, of devices, that count at this moment."""


def add_parsers(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", *, state: Path) -> None:
    """Add `authority`."""
    group = commands.add_parser("authority", help="the certificate authority, and the one that follows it")
    actions = group.add_subparsers(required=True, metavar="ACTION")
    show = actions.add_parser(
        "status",
        help="all authorities, and how many devices still have a certificate by each",
        epilog="example: shoal-fleet authority status --json",
    )
    show.add_argument("--json", action="store_true", help="one JSON list")
    show.set_defaults(run=_show)
    rotate = actions.add_parser(
        "rotate",
        help="make the next authority, with the server stopped; it issues from the next start on",
        epilog="example: shoal-fleet authority rotate",
    )
    rotate.set_defaults(run=_rotate)
    ending = actions.add_parser(
        "retire",
        help="end an authority that another follows, with the server stopped",
        epilog="example: shoal-fleet authority retire 1",
    )
    ending.add_argument("number", type=int, help="as `status` numbers them")
    ending.add_argument(
        "--despite-devices", action="store_true", help="though devices have certificates by it: those renew at once"
    )
    ending.set_defaults(run=_retire)
    for command in (show, rotate, ending):
        command.add_argument("--state", type=Path, default=state, help="folder (SHOAL_STATE): %(default)s")


def read_status(paths: StatePaths, *, now: float) -> list[AuthorityStatus]:
    """All authorities of a fleet, oldest first."""
    generations = Authorities.load(paths.authority).generations
    engine = open_database(paths)
    try:
        with make_sessions(engine)() as session:
            counts = count_certificates(session, now=now)
    finally:
        engine.dispose()
    return [
        AuthorityStatus(
            number=one.number,
            fingerprint=one.fingerprint,
            not_after=f"{one.not_after:%Y-%m-%d}",
            state=_state(one, newest=generations[-1]),
            certificates=counts.get(one.fingerprint, 0) + (counts.get(None, 0) if one.number == 1 else 0),
        )
        for one in generations
    ]


def _show(arguments: argparse.Namespace, paths: StatePaths) -> None:
    status = read_status(paths, now=time.time())
    if arguments.json:
        print(msgspec.json.encode(status).decode())
        return
    for one in status:
        print(
            f"{one.number}  {one.state:<8}  until {one.not_after}  {one.certificates} device certificates  "
            f"{one.fingerprint[:16]}"
        )


def _rotate(_arguments: argparse.Namespace, paths: StatePaths) -> None:
    now = time.time()
    lock = lock_state(paths)
    try:
        made = add_successor(paths.authority, now=datetime.fromtimestamp(now, UTC))
        _note(paths, "authority.made", subject=made.fingerprint, now=now)
    finally:
        os.close(lock)
    print(f"made authority {made.fingerprint[:16]}; start the server, and the broker where it is a unit of its own")
    print("unspent enrolment tokens name the old one: make new ones for boards whose agent is older than this server")


def _retire(arguments: argparse.Namespace, paths: StatePaths) -> None:
    now = time.time()
    lock = lock_state(paths)
    try:
        left = next((one.certificates for one in read_status(paths, now=now) if one.number == arguments.number), 0)
        if left and not arguments.despite_devices:
            raise Conflict(
                f"authority {arguments.number}: {left} device certificates by it still count, expected none; wait "
                "until they are renewed (`shoal-fleet authority status`), or add --despite-devices"
            )
        retire(paths.authority, arguments.number)
        _note(paths, "authority.retired", subject=str(arguments.number), now=now)
    finally:
        os.close(lock)
    print(f"authority {arguments.number} is retired; start the server, and the broker where it is a unit of its own")


def _note(paths: StatePaths, action: str, *, subject: str, now: float) -> None:
    engine = open_database(paths)
    try:
        with make_sessions(engine)() as session, writing(session):
            audit.append(session, actor=audit.FLEET, action=action, subject=subject, detail={}, now=now)
    finally:
        engine.dispose()


def _state(one: Generation, *, newest: Generation) -> str:
    if one.is_retired:
        return "retired"
    return "issues" if one.number == newest.number else "followed"
