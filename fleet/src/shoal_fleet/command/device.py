"""Which devices are there, how does a new one come in, and how is one shut out? `shoal device …`"""

import argparse
import sys
from urllib.parse import quote

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import Columns, listing, print_result, print_table, printable, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.views import Device, EnrolmentToken, describe_board, parse

_COLUMNS: Columns[Device] = {
    "NAME": lambda device: device.name,
    "ID": lambda device: device.id,
    "PROFILE": lambda device: device.profile,
    "STATE": lambda device: _state(device),
    "RUNS": lambda device: _runs(device),
    "LAST SEEN (UTC)": lambda device: when(device.last_seen),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal device`."""
    actions = add_group(commands, "device", summary="the boards of the fleet", example="shoal device list")
    add_command(
        actions,
        "list",
        summary="all devices",
        description="All devices, revoked ones last.",
        example="shoal device list --json",
        run=_list,
    )
    show = add_command(
        actions,
        "show",
        summary="one device",
        description="One device; with --json the document that it last signed, too.",
        example="shoal device show yard-3",
        run=_show,
    )
    token = add_command(
        actions,
        "token",
        summary="make a one-time enrolment token",
        description="Make a token with which one new board enrols. On the board: shoal-agent enrol TOKEN",
        example="shoal device token --name yard-3 --valid-for 3600",
        run=_token,
    )
    token.add_argument("--name", required=True, help="label of the new device; it may change later")
    token.add_argument("--valid-for", type=int, default=3600, metavar="SECONDS", help="default: one hour")
    revoke = add_command(
        actions,
        "revoke",
        summary="shut a device out for good",
        description="Shut a device out: its certificate is revoked and its open connection is cut off.",
        example="shoal device revoke yard-3 --yes",
        run=_revoke,
    )
    revoke.add_argument("--yes", action="store_true", help="do it; without this the command only says what it would do")
    for parser in (show, revoke):
        parser.add_argument("device", help="id or name")


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get("/api/v1/devices")
    rows = parse(shown, list[Device], what="devices")
    print_table(shown, rows, _COLUMNS, as_json=arguments.json, empty="no devices yet: `shoal device token --name NAME`")


def _show(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(_path(arguments.device))
    device = parse(shown, Device, what="device")
    update = device.reported.update if device.reported else None
    pairs = {
        "name": device.name,
        "id": device.id,
        "profile": device.profile,
        "agent": device.agent_version,
        "state": _state(device),
        "enrolled": when(device.enrolled_at),
        "last seen": when(device.last_seen),
        "runs": _runs(device),
        "board": device.reported and device.reported.kind and describe_board(device.reported.kind),
        "worker deaths": None if device.worker_deaths is None else f"{device.worker_deaths} in the last 24 h",
        "update": update and f"{update.state} ({update.target.release} {update.target.version})",
        "reason": update and update.reason,
    }
    print_result(shown, as_json=arguments.json, text=listing(pairs))


def _token(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post("/api/v1/enrolment-tokens", {"name": arguments.name, "ttl_s": arguments.valid_for})
    made = parse(shown, EnrolmentToken, what="enrolment token")
    print(f"good for one board until {when(made.expires_at)} UTC; there: shoal-agent enrol TOKEN", file=sys.stderr)
    print_result(shown, as_json=arguments.json, text=made.token)


def _revoke(arguments: argparse.Namespace) -> None:
    with Client() as client:
        device = parse(client.get(_path(arguments.device)), Device, what="device")
        label = printable(f"{device.name} ({device.id})")
        if not arguments.yes:
            raise UsageError(f"{label} would be shut out for good; add --yes to do it")
        shown = client.post(f"{_path(device.id)}/revoke", {})
    print_result(shown, as_json=arguments.json, text=f"{label} is revoked")


def _path(device: str) -> str:
    return f"/api/v1/devices/{quote(device, safe='')}"


def _state(device: Device) -> str:
    return "revoked" if device.revoked_at is not None else "online" if device.online else "offline"


def _runs(device: Device) -> str:
    slots = device.reported.slots if device.reported else ()
    return ", ".join(f"{slot.release} {slot.current.version}" for slot in slots if slot.current)
