"""What can a device open that is, or would be, shut out? `shoal device exposed`"""

import argparse
from urllib.parse import quote

from shoal_fleet.command.client import Client
from shoal_fleet.command.output import Columns, print_table
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.views import ExposedFile, Exposures, parse

_COLUMNS: Columns[ExposedFile] = {
    "MODEL": lambda file: file.release,
    "RELEASE": lambda file: file.version,
    "FILE": lambda file: file.file,
    "DEVICES ASSIGNED": lambda file: file.assigned_devices,
    "RESEALED IN": lambda file: file.replaced_by,
}


def add_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal device exposed`."""
    exposed = add_command(
        actions,
        "exposed",
        summary="files whose keys a device was given",
        description="Files whose content keys a device was ever given, with how many other devices are assigned the\n"
        "release, and the release in which the same contents are under another key. `shoal keys reseal` makes those.",
        example="shoal device exposed yard-3",
        run=_exposed,
    )
    exposed.add_argument("device", help="id or name")


def describe_exposed(client: Client, device: str) -> str:
    """What is to be said when a device was shut out; empty where it never held a key."""
    exposed = read_exposed(client, device)
    if not exposed.files:
        return ""
    releases = {(file.release, file.version) for file in exposed.files}
    return (
        f"; {len(exposed.files)} files of {len(releases)} releases are exposed: `shoal device exposed {device}`, "
        "`shoal keys reseal --exposed`"
    )


def read_exposed(client: Client, device: str) -> Exposures:
    """What the fleet says of one device."""
    return parse(client.get(f"/api/v1/devices/{quote(device, safe='')}/exposed"), Exposures, what="exposed files")


def _exposed(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(f"/api/v1/devices/{quote(arguments.device, safe='')}/exposed")
    exposures = parse(shown, Exposures, what="exposed files")
    print_table(shown, exposures.files, _COLUMNS, as_json=arguments.json, empty="it was never given a key")
