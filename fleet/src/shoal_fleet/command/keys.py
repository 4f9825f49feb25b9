"""How does a publisher begin? `shoal keys init` makes the offline keys and tells the fleet which of them count."""

import argparse
import base64
import sys
from datetime import UTC, datetime
from pathlib import Path

from shoal_wire.encoding import decode_base64
from shoal_wire.errors import Malformed
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.metadata import check_root, first_root, first_targets
from shoal_fleet.command.output import print_result
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.publisher import FleetKeys, Publisher
from shoal_fleet.command.views import Trust, parse


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal keys`."""
    example = "shoal keys init --publisher ~/publisher --passphrase-file passphrase.txt"
    actions = add_group(commands, "keys", summary="the publisher's offline keys", example=example)
    init = add_command(
        actions,
        "init",
        summary="make root and release keys, and register them with the fleet",
        description="Make root and release keys in a folder that the fleet never sees, and register their public\n"
        "parts with the fleet. It can be run again. Keep a copy of the folder: nobody can release without it.",
        example=example,
        run=_init,
    )
    add_publisher_options(init)


def add_publisher_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that signs."""
    parser.add_argument("--publisher", type=Path, required=True, metavar="FOLDER", help="the publisher's folder")
    parser.add_argument(
        "--passphrase-file", type=Path, metavar="FILE", help="passphrase of the keys; - reads it from standard input"
    )


def open_publisher(arguments: argparse.Namespace) -> Publisher:
    """The publisher's folder that the options name.

    Raises:
        UsageError: the passphrase's file can't be read, or is empty.
    """
    path = arguments.passphrase_file
    if path is None:
        return Publisher(arguments.publisher, passphrase=None)
    try:
        passphrase = (sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"--passphrase-file {path}: {error.strerror}") from None
    if not passphrase:
        raise UsageError(f"--passphrase-file {path}: expected a passphrase, found an empty file")
    return Publisher(arguments.publisher, passphrase=passphrase)


def read_metadata(text: str, *, what: str) -> bytes:
    """Metadata as the fleet sends it.

    Raises:
        CommandError: not base64.
    """
    try:
        return decode_base64(text, what=what)
    except Malformed as error:
        raise CommandError(str(error)) from None


def _init(arguments: argparse.Namespace) -> None:
    publisher = open_publisher(arguments)
    with Client() as client:
        fleet = _read_fleet_keys(client)
        registered = parse(client.get("/api/v1/trust"), Trust, what="trust").root
        if registered is not None and not publisher.exists():
            raise UsageError(
                f"{client.login.url} has a publisher already, and {publisher.folder} holds no keys; none were made"
            )
        publisher.create(fleet)
        if registered is None and publisher.last_signed() is not None:
            raise CommandError(
                f"{client.login.url} has forgotten the publisher that was registered: restore it from a copy; nothing "
                "was signed"
            )
        signer = publisher.signer("root")
        if registered is None:
            _register(client, publisher, fleet)
        else:
            check_root(read_metadata(registered, what="root metadata"), signer)
    if arguments.passphrase_file is None:
        print("the keys are not encrypted: whoever can read the folder can make releases", file=sys.stderr)
    result = {"publisher": str(publisher.folder), "fleet": client.login.url}
    print_result(result, as_json=arguments.json, text=f"{publisher.folder}: keys are ready and registered")


def _read_fleet_keys(client: Client) -> FleetKeys:
    fleet = parse(client.get("/api/v1/fleet-keys"), FleetKeys, what="fleet keys")
    try:
        fleet.check()
    except Malformed as error:
        raise CommandError(f"{client.login.url}: {error}") from None
    return fleet


def _register(client: Client, publisher: Publisher, fleet: FleetKeys) -> None:
    now = datetime.now(UTC)
    targets_signer = publisher.signer("targets")
    root = first_root(publisher.signer("root"), targets_signer, fleet, now=now)
    targets, assignment_keys = first_targets(targets_signer, fleet, now=now)
    body = {
        "root": base64.b64encode(root).decode(),
        "targets": base64.b64encode(targets).decode(),
        "target_files": {ASSIGNMENT_KEYS_PATH: base64.b64encode(assignment_keys).decode()},
    }
    client.post("/api/v1/trust", body)
    publisher.record_signed(targets, version=1)
