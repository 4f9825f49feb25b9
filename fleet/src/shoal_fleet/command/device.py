"""Which devices are there, how does a new one come in, and how is one shut out? `shoal device …`"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from shoal_fleet.command import exposed, labels
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.labels import read_labels, write_labels
from shoal_fleet.command.output import Columns, listing, print_result, print_table, printable, when
from shoal_fleet.command.parsers import add_command, add_group
from shoal_fleet.command.private_files import write_private
from shoal_fleet.command.views import Device, EnrolmentToken, Warnings, describe_agent, describe_board, parse

BOOT_FILE = "shoal-enrol.toml"
"""Where a board looks, on its boot partition."""
_COLUMNS: Columns[Device] = {
    "NAME": lambda device: device.name,
    "ID": lambda device: device.id,
    "PROFILE": lambda device: device.profile,
    "LABELS": lambda device: write_labels(device.labels),
    "STATE": lambda device: _state(device),
    "RUNS": lambda device: _runs(device),
    "AGENT": lambda device: device.agent_version,
    "LAST SEEN (UTC)": lambda device: when(device.last_seen),
}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal device`."""
    actions = add_group(commands, "device", summary="the boards of the fleet", example="shoal device list")
    listed = add_command(
        actions,
        "list",
        summary="all devices, or those that an expression means",
        description="All devices, revoked ones last, or those that an expression means: see docs/expressions.md.",
        example='shoal device list --where \'labels.site == "north" && runs["note-events"] < 3\'',
        run=_list,
    )
    listed.add_argument("--where", metavar="EXPRESSION", help='as labels.site == "north" && !online')
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
    token.add_argument("--project", help="that it will be in; needed where you have several")
    token.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="that it will have; may be given more than once",
    )
    token.add_argument("--valid-for", type=int, default=3600, metavar="SECONDS", help="default: one hour")
    token.add_argument(
        "--boot-file",
        type=Path,
        metavar="PATH",
        help=f"write it into a file for the board's boot partition in place of printing it: the board enrols by itself "
        f"at its first start. A folder gets a {BOOT_FILE}",
    )
    revoke = add_command(
        actions,
        "revoke",
        summary="shut a device out for good",
        description="Shut a device out: its certificate is revoked and its open connection is cut off.",
        example="shoal device revoke yard-3 --yes",
        run=_revoke,
    )
    revoke.add_argument("--yes", action="store_true", help="do it; without this the command only says what it would do")
    _add_lifecycle(actions, others=(show, revoke))
    labels.add_parser(actions)
    exposed.add_parser(actions)


def _add_lifecycle(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", *, others: Sequence[argparse.ArgumentParser]
) -> None:
    """What becomes of a device over the years. `others` take a device, too."""
    decommission = add_command(
        actions,
        "decommission",
        summary="take a device out of use",
        description="Shut a device out and remove what only a device in use needs; its history stays.",
        example="shoal device decommission yard-3 --yes",
        run=_decommission,
    )
    decommission.add_argument(
        "--yes", action="store_true", help="do it; without this the command only says what it would do"
    )
    replace = add_command(
        actions,
        "replace",
        summary="have a new board take a device's place",
        description="Make a token with which a new board enrols and takes over name, project and assignments. The old "
        "one is shut out at that moment. Secrets must be set anew: they were sealed to the old board.",
        example="shoal device replace yard-3 --valid-for 86400",
        run=_replace,
    )
    replace.add_argument("--valid-for", type=int, default=86400, metavar="SECONDS", help="default: one day")
    release = add_command(
        actions,
        "release-hold",
        summary="let a held device get new documents again",
        description="A device is held when two boards speak with its keys, as after a card was copied. Put the copy "
        "out of use first, or the device is soon held again; where the keys may be in wrong hands, replace it instead.",
        example="shoal device release-hold yard-3",
        run=_release_hold,
    )
    rename = add_command(
        actions,
        "rename",
        summary="call a device otherwise",
        description="Give a device another name. Its id stays, and the board needs to know nothing of it.",
        example="shoal device rename yard-3 --name gate-1",
        run=_rename,
    )
    rename.add_argument("--name", required=True, help="what it is to be called")
    move = add_command(
        actions,
        "move",
        summary="have a device be of another project",
        description="Have a device be of another project. It goes on with what it runs. Its rollouts must be over.",
        example="shoal device move yard-3 --project garden",
        run=_move,
    )
    move.add_argument("--project", required=True, help="that it is to be in; you are admin of both")
    for parser in (*others, decommission, replace, release, rename, move):
        parser.add_argument("device", help="id or name")


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get("/api/v1/devices", **({"where": arguments.where} if arguments.where is not None else {}))
        warnings = parse(client.get("/api/v1/warnings"), Warnings, what="warnings").warnings
    for warning in warnings:
        print(f"shoal: warning: {printable(warning)}", file=sys.stderr)
    rows = parse(shown, list[Device], what="devices")
    empty = "no devices yet: `shoal device token --name NAME`" if arguments.where is None else "no such device"
    print_table(shown, rows, _COLUMNS, as_json=arguments.json, empty=empty)


def _show(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get(_path(arguments.device))
    device = parse(shown, Device, what="device")
    update = device.reported.update if device.reported else None
    pairs = {
        "name": device.name,
        "id": device.id,
        "project": device.project,
        "profile": device.profile,
        "labels": write_labels(device.labels),
        "agent": describe_agent(device),
        "state": _state(device),
        "held": device.held_at and f"since {when(device.held_at)} UTC: {device.held_reason}",
        "certificate": device.certificate_ends_at
        and f"until {when(device.certificate_ends_at)} UTC, {'renewed by itself' if device.renews else 'not renewed'}",
        "went back": f"{device.went_back} times its reports began below earlier ones" if device.went_back else None,
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
        wanted = {
            "name": arguments.name,
            "project": arguments.project,
            "ttl_s": arguments.valid_for,
            "labels": read_labels(arguments.label, option="--label"),
        }
        shown = client.post("/api/v1/enrolment-tokens", wanted)
    made = parse(shown, EnrolmentToken, what="enrolment token")
    until = f"good for one board until {when(made.expires_at)} UTC"
    if arguments.boot_file:
        path = arguments.boot_file / BOOT_FILE if arguments.boot_file.is_dir() else arguments.boot_file
        write_private(path, _boot_file(made.token, name=arguments.name).encode())
        print(f"{until}, in {path}; it belongs on the boot partition as {BOOT_FILE}", file=sys.stderr)
        return
    print(f"{until}; there: sudo shoal-agent enrol TOKEN", file=sys.stderr)
    print_result(shown, as_json=arguments.json, text=made.token)


def _boot_file(token: str, *, name: str) -> str:
    """What `shoal-agent enrol --file` reads. JSON's strings are TOML's but for DEL."""
    quoted = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
    return f'token = "{token}"\nname = {quoted}\n'


def _revoke(arguments: argparse.Namespace) -> None:
    with Client() as client:
        device = parse(client.get(_path(arguments.device)), Device, what="device")
        label = printable(f"{device.name} ({device.id})")
        if not arguments.yes:
            raise UsageError(f"{label} would be shut out for good; add --yes to do it")
        shown = client.post(f"{_path(device.id)}/revoke", {})
        also = exposed.describe_exposed(client, device.id)
    print_result(shown, as_json=arguments.json, text=f"{label} is revoked{also}")


def _decommission(arguments: argparse.Namespace) -> None:
    with Client() as client:
        device = parse(client.get(_path(arguments.device)), Device, what="device")
        label = printable(f"{device.name} ({device.id})")
        if not arguments.yes:
            raise UsageError(f"{label} would be shut out for good and taken out of use; add --yes to do it")
        shown = client.post(f"{_path(device.id)}/decommission", {})
    print_result(shown, as_json=arguments.json, text=f"{label} is out of use")


def _replace(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"{_path(arguments.device)}/replacement", {"ttl_s": arguments.valid_for})
    made = parse(shown, EnrolmentToken, what="enrolment token")
    print(
        f"good for the new board until {when(made.expires_at)} UTC; there: shoal-agent enrol TOKEN. The old one stays "
        "until then",
        file=sys.stderr,
    )
    print_result(shown, as_json=arguments.json, text=made.token)


def _release_hold(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"{_path(arguments.device)}/release-hold", {})
    device = parse(shown, Device, what="device")
    text = f"{printable(device.name)} ({device.id}) isn't held any more"
    print_result(shown, as_json=arguments.json, text=text)


def _rename(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"{_path(arguments.device)}/rename", {"name": arguments.name})
    device = parse(shown, Device, what="device")
    print_result(shown, as_json=arguments.json, text=f"{device.id} is called {printable(device.name)}")


def _move(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"{_path(arguments.device)}/move", {"project": arguments.project})
    device = parse(shown, Device, what="device")
    print_result(shown, as_json=arguments.json, text=printable(f"{device.name} ({device.id}) is in {device.project}"))


def _path(device: str) -> str:
    return f"/api/v1/devices/{quote(device, safe='')}"


def _state(device: Device) -> str:
    states = {
        "out of use": device.decommissioned_at is not None,
        "revoked": device.revoked_at is not None,
        "held": device.held_at is not None,
        "online": device.online,
    }
    return next((state for state, holds in states.items() if holds), "offline")


def _runs(device: Device) -> str:
    slots = device.reported.slots if device.reported else ()
    return ", ".join(f"{slot.release} {slot.current.version}" for slot in slots if slot.current)
