"""How does what a publisher changes get signed and to the fleet?

Whoever begins signs with the keys that can be reached here. Where that is enough it is published at once; otherwise it
is written to a file for the others: `shoal keys sign FILE`, then `shoal keys publish FILE`.
"""

import argparse
import sys
from pathlib import Path

from shoal_wire.errors import Malformed
from tuf.api.metadata import Root

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.pending import Pending, find_lacking, record, request_of, sign, write_pending
from shoal_fleet.command.present import Present, parse
from shoal_fleet.command.publisher import FleetKeys, Publisher
from shoal_fleet.command.views import Trust
from shoal_fleet.command.views import parse as parse_answer


def add_publisher_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that signs."""
    parser.add_argument("--publisher", type=Path, required=True, metavar="FOLDER", help="the publisher's folder")
    parser.add_argument(
        "--passphrase-file", type=Path, metavar="FILE", help="passphrase of the keys; - reads it from standard input"
    )
    parser.add_argument("--pin-file", type=Path, metavar="FILE", help="PIN of a token; without it, it is asked for")


def open_publisher(arguments: argparse.Namespace) -> Publisher:
    """The publisher's folder that the options name.

    Raises:
        UsageError: the passphrase's or PIN's file can't be read, or is empty.
    """
    passphrase = _read_secret(arguments.passphrase_file, option="--passphrase-file", what="a passphrase")
    pin = _read_secret(arguments.pin_file, option="--pin-file", what="a PIN")
    return Publisher(arguments.publisher, passphrase=passphrase, pin=None if pin is None else pin.decode())


def open_present(client: Client, publisher: Publisher) -> tuple[Present, Trust]:
    """What the fleet's repository lists now, verified; and what the fleet says of it.

    Raises:
        UsageError: the fleet has no publisher yet.
        CommandError: it isn't this publisher's, or is older than what was signed here.
    """
    trust = parse_answer(client.get("/api/v1/trust"), Trust, what="trust")
    if trust.root is None or trust.targets is None:
        raise UsageError("the fleet knows no publisher yet: run `shoal keys init` first")

    def read(file_name: str) -> bytes:
        return client.read(f"/api/v1/trust/metadata/{file_name}")

    present = Present(
        versions=trust.versions,
        read=read,
        read_target=lambda path: client.read(f"/api/v1/trust/targets/{path}"),
        last_signed=publisher.last_signed,
        first_root=publisher.last_signed("root") or check_own_root(read("1.root.json"), publisher),
    )
    return present, trust


def check_own_root(raw: bytes, publisher: Publisher) -> bytes:
    """Make sure that a first root is this publisher's: it names the folder's root keys, and they signed it.

    Raises:
        CommandError: it isn't.
    """
    root = parse(raw, Root, what="the root metadata that the fleet trusts")
    keys = publisher.role_keys("root")
    named = set(root.signed.roles[Root.type].keyids)
    result = root.signed.get_verification_result(Root.type, root.signed_bytes, root.signatures)
    if named != {name.keyid for name in keys.keys} or not result:
        raise CommandError(
            "the root metadata that the fleet trusts: not signed by this publisher's keys (another publisher's folder?)"
        )
    return raw


def read_fleet_keys(client: Client) -> FleetKeys:
    """Public keys of the fleet, as it says.

    Raises:
        CommandError: they are no keys.
    """
    fleet = parse_answer(client.get("/api/v1/fleet-keys"), FleetKeys, what="fleet keys")
    try:
        fleet.check()
    except Malformed as error:
        raise CommandError(f"{client.login.url}: {error}") from None
    return fleet


def conclude(pending: Pending, *, client: Client, publisher: Publisher) -> Path | None:
    """Sign, then publish; or write a file for the others who must sign, whose path is returned.

    Raises:
        UsageError, CommandError: nothing can be signed here, or the fleet refuses it.
    """
    signed = sign(pending, publisher)
    lacking = find_lacking(signed)
    if not lacking:
        publish(signed, client=client, publisher=publisher)
        return None
    path = publisher.pending_file(signed.title)
    write_pending(path, signed)
    for one in lacking[:8]:
        print(one, file=sys.stderr)
    print(
        f"not published yet: have others run `shoal keys sign {path.name}`, then `shoal keys publish {path.name}`",
        file=sys.stderr,
    )
    return path


def publish(pending: Pending, *, client: Client, publisher: Publisher) -> None:
    """Upload what is signed by enough, and remember that the fleet took it.

    Raises:
        UsageError: it isn't.
        CommandError: the fleet refuses it.
    """
    lacking = find_lacking(pending)
    if lacking:
        raise UsageError(f"{pending.title}: {lacking[0]}; have others run `shoal keys sign`")
    path, body = request_of(pending)
    client.post(path, body)
    record(pending, publisher)


def _read_secret(path: Path | None, *, option: str, what: str) -> bytes | None:
    if path is None:
        return None
    try:
        secret = (sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None
    if not secret:
        raise UsageError(f"{option} {path}: expected {what}, found an empty file")
    return secret
