"""How does a release get onto devices, and how is that watched and stopped? `shoal rollout …`"""

import argparse
import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.output import print_result, table

_COLUMNS = {"name": "DEVICE", "state": "STATE", "update": "STEP", "reason": "REASON"}
_POLL_S = 0.5
_ENDED = {"succeeded", "failed", "aborted"}


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal rollout`."""
    rollout = commands.add_parser("rollout", help="move devices to a release", description="Move devices to a release.")
    actions = rollout.add_subparsers(dest="action", required=True, metavar="ACTION")
    start = actions.add_parser(
        "start",
        help="roll a release out",
        description="Roll a release out. A device that does badly on it goes back by itself.",
        epilog="example: shoal rollout start note-events 2 --device yard-3 --watch",
    )
    start.add_argument("name", help="model")
    start.add_argument("version", type=int, help="release")
    start.add_argument("--device", action="append", metavar="DEVICE", help="id or name; may be given more than once")
    start.add_argument("--all", action="store_true", help="all devices that aren't revoked")
    start.add_argument("--watch", action="store_true", help="stay until it has ended")
    start.set_defaults(run=_start)
    watch = actions.add_parser("watch", help="follow a rollout", epilog="example: shoal rollout watch 12")
    watch.set_defaults(run=_watch)
    abort = actions.add_parser(
        "abort",
        help="stop a rollout",
        description="Stop a rollout: devices that haven't finished are told to keep what they run.",
        epilog="example: shoal rollout abort 12",
    )
    abort.set_defaults(run=_abort)
    for parser in (watch, abort):
        parser.add_argument("id", type=int, help="number of the rollout")
    for parser in (start, watch):
        parser.add_argument(
            "--timeout", type=float, default=3600.0, metavar="SECONDS", help="watch no longer than this"
        )
    for parser in (start, watch, abort):
        parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _start(arguments: argparse.Namespace) -> None:
    if bool(arguments.device) == arguments.all:
        raise CommandError("say which devices: --device NAME (may be given more than once), or --all")
    with Client() as client:
        devices = ["all"] if arguments.all else arguments.device
        body = {"release": arguments.name, "version": arguments.version, "devices": devices}
        rollout = client.post("/api/v1/rollouts", body)
        if arguments.watch:
            _follow(client, rollout["id"], arguments)
            return
    print_result(rollout, as_json=arguments.json, text=f"rollout {rollout['id']} is running")


def _watch(arguments: argparse.Namespace) -> None:
    with Client() as client:
        _follow(client, arguments.id, arguments)


def _abort(arguments: argparse.Namespace) -> None:
    with Client() as client:
        rollout = client.post(f"/api/v1/rollouts/{arguments.id}/abort", {})
    print_result(rollout, as_json=arguments.json, text=f"rollout {arguments.id} is {rollout['state']}")


def _follow(client: Client, number: int, arguments: argparse.Namespace) -> None:
    """Show a rollout until it has ended; a failed or aborted one is exit code 1."""
    deadline = time.monotonic() + arguments.timeout
    with Live(console=Console(stderr=True), refresh_per_second=4, transient=not sys.stderr.isatty()) as live:
        while True:
            rollout = client.get(f"/api/v1/rollouts/{number}")
            if sys.stderr.isatty():
                live.update(table(_rows(rollout), _COLUMNS))
            if rollout["state"] in _ENDED:
                break
            if time.monotonic() > deadline:
                raise CommandError(f"rollout {number} hasn't ended after {arguments.timeout:.0f} s; it goes on")
            time.sleep(_POLL_S)
    print_result(rollout, as_json=arguments.json, text=_summary(rollout))
    if rollout["state"] != "succeeded":
        raise CommandError(f"rollout {number} {rollout['state']}")


def _rows(rollout: dict[str, Any]) -> list[dict[str, Any]]:
    return list(rollout["devices"])


def _summary(rollout: dict[str, Any]) -> str:
    lines = [f"rollout {rollout['id']} of {rollout['release']} {rollout['version']}: {rollout['state']}"]
    lines += [f"  {row['name']}: {row['state']} {row.get('reason') or ''}".rstrip() for row in rollout["devices"]]
    return "\n".join(lines)
