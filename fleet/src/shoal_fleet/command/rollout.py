"""How does a release get onto devices, and how is that watched and stopped? `shoal rollout …`"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from shoal_fleet.command import policy, rollout_plan, rollout_steering
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, Unreachable
from shoal_fleet.command.output import Columns, print_result, print_table, printable, table, when
from shoal_fleet.command.parsers import add_command, add_group, seconds
from shoal_fleet.command.views import Attempt, Rollout, RolloutDetail, parse

_COLUMNS: Columns[Attempt] = {
    "DEVICE": lambda attempt: attempt.name,
    "STATE": lambda attempt: attempt.state,
    "STEP": lambda attempt: attempt.update,
    "REASON": lambda attempt: attempt.reason,
}
_LIST_COLUMNS: Columns[Rollout] = {
    "ROLLOUT": lambda rollout: rollout.id,
    "MODEL": lambda rollout: rollout.release,
    "RELEASE": lambda rollout: rollout.version,
    "STATE": lambda rollout: _state(rollout),
    "BY": lambda rollout: rollout.created_by,
    "DEVICES": lambda rollout: ", ".join(f"{count} {state}" for state, count in sorted(rollout.counts.items())),
    "STARTED (UTC)": lambda rollout: when(rollout.created_at),
}
_POLL_S = 0.5
_ENDED = {"succeeded", "failed", "aborted", "rolled back"}
_WAITING = "waiting"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal rollout`."""
    example = "shoal rollout start note-events 2 --device yard-3 --watch"
    actions = add_group(commands, "rollout", summary="move devices to a release", example=example)
    start = _add_start(actions, example=example)
    add_command(
        actions,
        "list",
        summary="the newest rollouts",
        description="The newest rollouts, newest first.",
        example="shoal rollout list --json",
        run=_list,
    )
    show = add_command(
        actions,
        "show",
        summary="one rollout, device by device",
        description="One rollout, device by device.",
        example="shoal rollout show 12",
        run=_show,
    )
    watch = add_command(
        actions,
        "watch",
        summary="follow a rollout until it has ended",
        description="Follow a rollout until it has ended. The exit code is 0 only if it has succeeded.",
        example="shoal rollout watch 12 --timeout 600",
        run=_watch,
    )
    abort = add_command(
        actions,
        "abort",
        summary="stop a rollout",
        description="Stop a rollout: devices that haven't finished are told to keep what they ran before.",
        example="shoal rollout abort 12",
        run=_abort,
    )
    approve = add_command(
        actions,
        "approve",
        summary="approve a rollout that somebody else started",
        description="Approve a rollout that somebody else started. With the last approval that it needs it begins.",
        example="shoal rollout approve 12",
        run=_approve,
    )
    rollout_plan.add_parser(actions)
    others = rollout_steering.add_parsers(actions)
    policy.add_parser(actions)
    for parser in (show, watch, abort, approve, *others):
        parser.add_argument("id", type=int, help="number of the rollout")
    for parser in (start, watch):
        parser.add_argument(
            "--timeout", type=seconds, default=3600.0, metavar="SECONDS", help="watch no longer than this (an hour)"
        )


def _add_start(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]", *, example: str
) -> argparse.ArgumentParser:
    start = add_command(
        actions,
        "start",
        summary="roll a release out",
        description="Roll a release out. A device that does badly on it goes back by itself.",
        example=example,
        run=_start,
    )
    start.add_argument("name", help="model")
    start.add_argument("version", type=int, help="release")
    devices = start.add_mutually_exclusive_group(required=True)
    devices.add_argument("--device", action="append", metavar="DEVICE", help="id or name; may be given more than once")
    devices.add_argument("--all", action="store_true", help="all devices that aren't revoked")
    start.add_argument("--watch", action="store_true", help="stay until it has ended")
    start.add_argument(
        "--probation-answers", type=int, metavar="N", help="answers that a device judges the release by (20)"
    )
    start.add_argument(
        "--probation-p95-ratio", type=float, metavar="X", help="p95 may be so many times that of the previous one (2)"
    )
    start.add_argument(
        "--probation-deadline",
        type=seconds,
        metavar="SECONDS",
        help="a device that hasn't shown by then that the release is good goes back (15 minutes)",
    )
    return start


def _start(arguments: argparse.Namespace) -> None:
    body = {
        "release": arguments.name,
        "version": arguments.version,
        "devices": ["all"] if arguments.all else arguments.device,
        "probation": {
            "answers": arguments.probation_answers,
            "p95_ratio": arguments.probation_p95_ratio,
            "deadline_s": arguments.probation_deadline,
        },
    }
    with Client() as client:
        shown = client.post("/api/v1/rollouts", body)
        rollout = parse(shown, RolloutDetail, what="rollout")
        if arguments.watch:
            _follow(client, rollout, timeout_s=arguments.timeout, as_json=arguments.json)
            return
    text = f"rollout {rollout.id} is {_state(rollout)}"
    if rollout.state == _WAITING:
        text += f"; somebody else approves it with: shoal rollout approve {rollout.id}"
    print_result(shown, as_json=arguments.json, text=text)


def _list(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.get("/api/v1/rollouts")
    rows = parse(shown, list[Rollout], what="rollouts")
    empty = "no rollouts yet: `shoal rollout start MODEL RELEASE --all`"
    print_table(shown, rows, _LIST_COLUMNS, as_json=arguments.json, empty=empty)


def _show(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown, rollout = _fetch(client, arguments.id)
    print_result(shown, as_json=arguments.json, text=_summary(rollout))


def _watch(arguments: argparse.Namespace) -> None:
    with Client() as client:
        _, rollout = _fetch(client, arguments.id)
        _follow(client, rollout, timeout_s=arguments.timeout, as_json=arguments.json)


def _abort(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"/api/v1/rollouts/{arguments.id}/abort", {})
    rollout = parse(shown, RolloutDetail, what="rollout")
    print_result(shown, as_json=arguments.json, text=f"rollout {rollout.id} is {rollout.state}")


def _approve(arguments: argparse.Namespace) -> None:
    with Client() as client:
        shown = client.post(f"/api/v1/rollouts/{arguments.id}/approve", {})
    rollout = parse(shown, RolloutDetail, what="rollout")
    print_result(shown, as_json=arguments.json, text=f"rollout {rollout.id} is {_state(rollout)}")


def _fetch(client: Client, number: int) -> tuple[object, RolloutDetail]:
    shown = client.get(f"/api/v1/rollouts/{number}")
    return shown, parse(shown, RolloutDetail, what="rollout")


def _follow(client: Client, rollout: RolloutDetail, *, timeout_s: float, as_json: bool) -> None:
    """Show a rollout until it has ended; a failed or aborted one is exit code 1.

    A fleet that restarts meanwhile is waited for.
    """
    try:
        with _progress() as show:
            shown, ended = _wait_until_ended(client, rollout, show=show, timeout_s=timeout_s)
    except KeyboardInterrupt:
        print(f"rollout {rollout.id} goes on; to stop it: shoal rollout abort {rollout.id}", file=sys.stderr)
        raise
    print_result(shown, as_json=as_json, text=_summary(ended))
    if ended.state != "succeeded":
        raise CommandError(f"rollout {ended.id} has {ended.state}")


def _wait_until_ended(
    client: Client, rollout: RolloutDetail, *, show: Callable[[RolloutDetail], None], timeout_s: float
) -> tuple[object, RolloutDetail]:
    deadline = time.monotonic() + timeout_s
    while True:
        unreached = None
        try:
            shown, rollout = _fetch(client, rollout.id)
            if rollout.state in _ENDED:
                return shown, rollout
            show(rollout)
        except Unreachable as error:
            unreached = error
        if time.monotonic() > deadline:
            late = f"rollout {rollout.id} hasn't ended after {timeout_s:.0f} s; it goes on"
            raise unreached or CommandError(late)
        time.sleep(_POLL_S)


@contextmanager
def _progress() -> Iterator[Callable[[RolloutDetail], None]]:
    """On standard error: a table that changes in place, or where that is no terminal a line for each change."""
    if sys.stderr.isatty():
        with Live(console=Console(stderr=True), refresh_per_second=4, transient=True) as live:
            yield lambda rollout: live.update(table(rollout.devices, _COLUMNS))
        return
    said: set[str] = set()

    def say(rollout: RolloutDetail) -> None:
        lines = [f"rollout {rollout.id} is {rollout.state}: {rollout.reason}"] if rollout.reason else []
        lines += [f"wave {wave.number} {wave.state}: {wave.verdict}" for wave in rollout.waves if wave.verdict]
        lines += [f"{attempt.name}: {attempt.state} {attempt.update}".rstrip() for attempt in rollout.devices]
        for line in map(printable, lines):
            if line not in said:
                said.add(line)
                print(line, file=sys.stderr, flush=True)

    yield say


def _summary(rollout: RolloutDetail) -> str:
    lines = [f"rollout {rollout.id} of {rollout.release} {rollout.version}: {_state(rollout)}"]
    lines += [f"  {rollout.reason}"] if rollout.reason else []
    people = (("started", [rollout.created_by] if rollout.created_by else []), ("approved", rollout.approved_by))
    lines += [f"  {verb} by {', '.join(names)}" for verb, names in people if names]
    for wave in rollout.waves:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(wave.counts.items())) or "no device"
        lines.append(f"  wave {wave.number} {wave.state}: {counts}" + (f"; {wave.verdict}" if wave.verdict else ""))
    for attempt in rollout.devices:
        state = (
            attempt.state if attempt.state in _ENDED or not attempt.update else f"{attempt.state} ({attempt.update})"
        )
        lines.append(f"  {attempt.name}: {state}" + (f", {attempt.reason}" if attempt.reason else ""))
    return "\n".join(map(printable, lines))


def _state(rollout: Rollout) -> str:
    if rollout.state != _WAITING:
        return rollout.state
    return f"{_WAITING} for approval ({len(rollout.approved_by)} of {rollout.approvals_needed})"
