"""Which devices are there, how does a new one come in, and how is one shut out? `shoal device …`"""

import argparse
from urllib.parse import quote

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.output import print_result, print_table, when

_COLUMNS = {"name": "NAME", "id": "ID", "profile": "PROFILE", "agent": "AGENT", "state": "STATE", "seen": "LAST SEEN"}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal device`."""
    device = commands.add_parser("device", help="the boards of the fleet", description="The boards of the fleet.")
    actions = device.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="all devices", epilog="example: shoal device list --json")
    listing.set_defaults(run=_list)
    show = actions.add_parser("show", help="one device", epilog="example: shoal device show yard-3")
    show.set_defaults(run=_show)
    token = actions.add_parser(
        "token",
        help="make a one-time enrolment token",
        description="Make a token with which one new board enrols: `shoal-agent enrol TOKEN` on the board.",
        epilog="example: shoal device token --name yard-3 --valid-for 3600",
    )
    token.add_argument("--name", required=True, help="label of the new device; it may change later")
    token.add_argument("--valid-for", type=int, default=3600, metavar="SECONDS", help="default: one hour")
    token.set_defaults(run=_token)
    revoke = actions.add_parser(
        "revoke",
        help="shut a device out for good",
        description="Shut a device out: its certificate is revoked and its open connection is cut off.",
        epilog="example: shoal device revoke yard-3 --yes",
    )
    revoke.add_argument("--yes", action="store_true", help="do it; without this the command only says what it would do")
    revoke.set_defaults(run=_revoke)
    for parser in (show, revoke):
        parser.add_argument("device", help="id or name")
    for parser in (listing, show, token, revoke):
        parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        rows = client.get("/api/v1/devices")
    if not arguments.json:
        for row in rows:
            row["agent"] = row["agent_version"]
            row["state"] = "revoked" if row["revoked_at"] else "online" if row["online"] else "offline"
            row["seen"] = when(row["last_seen"])
    print_table(rows, _COLUMNS, as_json=arguments.json, empty="no devices yet: `shoal device token --name NAME`")


def _show(arguments: argparse.Namespace) -> None:
    with Client() as client:
        device = client.get(f"/api/v1/devices/{quote(arguments.device, safe='')}")
    lines = [f"{key}: {value}" for key, value in device.items()]
    print_result(device, as_json=arguments.json, text="\n".join(lines))


def _token(arguments: argparse.Namespace) -> None:
    with Client() as client:
        body = {"name": arguments.name, "ttl_s": arguments.valid_for}
        made = client.post("/api/v1/enrolment-tokens", body)
    print_result(made, as_json=arguments.json, text=made["token"])


def _revoke(arguments: argparse.Namespace) -> None:
    with Client() as client:
        path = f"/api/v1/devices/{quote(arguments.device, safe='')}"
        device = client.get(path)
        if not arguments.yes:
            raise CommandError(f"{device['name']} ({device['id']}) would be shut out for good; add --yes to do it")
        device = client.post(f"{path}/revoke", {})
    print_result(device, as_json=arguments.json, text=f"{device['name']} ({device['id']}) is revoked")
