"""How does one certificate authority follow another? `shoal-fleet authority status | rotate | retire`

`rotate` makes the next authority, which issues from the server's next start on. Boards that know only the one before
find their fleet by the link between the two, and learn of the new one when they renew. `retire` ends the old one, once
no device has a certificate by it any more, or at once where its key may be in wrong hands: a device that still has one
comes back by proof of its identity key. Only `rotate` needs the key-encryption key.
"""

import argparse
import os
import time
from pathlib import Path

import msgspec
from sqlalchemy.orm import Session

from shoal_fleet import authority_keys, plain_keys
from shoal_fleet.audit import service as audit
from shoal_fleet.database import make_sessions, writing
from shoal_fleet.devices.service import count_certificates
from shoal_fleet.errors import Conflict
from shoal_fleet.kek_cli import add_kek_option, unlock_configured
from shoal_fleet.pki.authorities import MOST, Generation, check_followed, list_generations
from shoal_fleet.state import StatePaths, check_made, lock_state, open_database, open_keys


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
    add_kek_option(rotate)
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
    """All authorities of a fleet, oldest first.

    Raises:
        NotFound: there is no fleet.
        BrokenAuthority: a certificate is missing or damaged.
    """
    check_made(paths)
    engine = open_database(paths)
    try:
        with make_sessions(engine)() as session:
            counts, kept = count_certificates(session, now=now), authority_keys.list_kept(session)
    finally:
        engine.dispose()
    generations = list_generations(paths.authority, kept=kept | _list_plain(paths))
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


def _rotate(arguments: argparse.Namespace, paths: StatePaths) -> None:
    check_made(paths)
    now = time.time()
    lock = lock_state(paths)
    engine = open_database(paths)
    try:
        sessions, vault = make_sessions(engine), unlock_configured(paths, arguments, now=now)
        open_keys(paths, sessions, vault=vault, now=now)
        made = authority_keys.follow(paths.authority, sessions, vault=vault, now=now)
        with sessions() as session, writing(session):
            _note(session, "authority.made", subject=made.fingerprint, now=now)
    finally:
        engine.dispose()
        os.close(lock)
    print(f"made authority {made.fingerprint[:16]}; start the server, and the broker where it is a unit of its own")
    print("unspent enrolment tokens name the old one: make new ones for boards whose agent is older than this server")
    _say_what_to_sign(paths, now=now)


def _retire(arguments: argparse.Namespace, paths: StatePaths) -> None:
    check_made(paths)
    now, number = time.time(), arguments.number
    lock = lock_state(paths)
    engine = open_database(paths)
    try:
        check_followed(paths.authority, number)
        status = read_status(paths, now=now)
        left = next((one.certificates for one in status if one.number == number), 0)
        if left and not arguments.despite_devices:
            raise Conflict(
                f"authority {number}: {left} device certificates by it still count, expected none; wait "
                "until they are renewed (`shoal-fleet authority status`), or add --despite-devices"
            )
        plain_keys.wipe(paths.folder / plain_keys.authority_file(number).path)  # of a fleet not started since
        with make_sessions(engine)() as session, writing(session):
            authority_keys.forget(session, number)
            _note(session, "authority.retired", subject=str(number), now=now)
    finally:
        engine.dispose()
        os.close(lock)
    print(f"authority {number} is retired; start the server, and the broker where it is a unit of its own")
    _say_what_to_sign(paths, now=now)


def _say_what_to_sign(paths: StatePaths, *, now: float) -> None:
    """Boards forget no authority by what the server says."""
    left = [one.fingerprint for one in read_status(paths, now=now) if one.state != "retired"]
    print("then have the publisher sign which ones boards trust, and that they forget all others:")
    print(f"  shoal keys authorities {' '.join(left)} --publisher FOLDER")


def _note(session: Session, action: str, *, subject: str, now: float) -> None:
    audit.append(session, actor=audit.FLEET, action=action, subject=subject, detail={}, now=now)


def _list_plain(paths: StatePaths) -> frozenset[int]:
    """Authorities whose keys still lie as files of an earlier version, in a fleet not started since."""
    numbers = range(1, MOST + 1)
    return frozenset(one for one in numbers if (paths.folder / plain_keys.authority_file(one).path).exists())


def _state(one: Generation, *, newest: Generation) -> str:
    if one.is_retired:
        return "retired"
    return "issues" if one.number == newest.number else "followed"
