"""How does a publisher begin? `shoal keys init` makes the offline keys and tells the fleet which of them count."""

import argparse
import base64
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.metadata import check_root, first_root, first_targets
from shoal_fleet.command.output import print_result
from shoal_fleet.command.publisher import FleetKeys, Publisher


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal keys`."""
    keys = commands.add_parser("keys", help="the publisher's offline keys", description="The publisher's offline keys.")
    actions = keys.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser(
        "init",
        help="make root and release keys, and register them with the fleet",
        description="Make root and release keys in a folder that the fleet never sees; register their public parts.",
        epilog="example: shoal keys init --publisher ~/publisher --passphrase-file pass.txt",
    )
    add_publisher_options(init)
    init.add_argument("--json", action="store_true", help="print the result as JSON")
    init.set_defaults(run=_init)


def add_publisher_options(parser: argparse.ArgumentParser) -> None:
    """The options of every command that signs."""
    parser.add_argument("--publisher", type=Path, required=True, metavar="FOLDER", help="the publisher's folder")
    parser.add_argument("--passphrase-file", type=Path, help="file with the passphrase of the keys")


def open_publisher(arguments: argparse.Namespace) -> Publisher:
    """The publisher's folder that the options name.

    Raises:
        UsageError: the passphrase's file can't be read.
    """
    passphrase = None
    if arguments.passphrase_file is not None:
        try:
            passphrase = arguments.passphrase_file.read_bytes().strip()
        except OSError as error:
            raise UsageError(f"--passphrase-file {arguments.passphrase_file}: {error.strerror}") from None
    return Publisher(arguments.publisher, passphrase=passphrase)


def _init(arguments: argparse.Namespace) -> None:
    publisher = open_publisher(arguments)
    with Client() as client:
        fleet = msgspec.convert(client.get("/api/v1/fleet-keys"), FleetKeys)
        publisher.create(fleet)
        trust = client.get("/api/v1/trust")
        if trust["root"] is None:
            trust = _register(client, publisher, fleet)
        root = base64.b64decode(trust["root"])
    check_root(root, publisher.signer("root"))
    result = {"publisher": str(publisher.folder), "fleet": client.login.url}
    print_result(result, as_json=arguments.json, text=f"{publisher.folder}: keys are ready and registered")


def _register(client: Client, publisher: Publisher, fleet: FleetKeys) -> dict[str, str]:
    now = datetime.now(UTC)
    root = first_root(publisher.signer("root"), publisher.signer("targets"), fleet, now=now)
    targets, assignment_keys = first_targets(publisher.signer("targets"), fleet, now=now)
    body = {
        "root": base64.b64encode(root).decode(),
        "targets": base64.b64encode(targets).decode(),
        "target_files": {ASSIGNMENT_KEYS_PATH: base64.b64encode(assignment_keys).decode()},
    }
    client.post("/api/v1/trust", body)
    publisher.record_signed(targets, version=1)
    return {"root": body["root"]}  # type: ignore[dict-item]
