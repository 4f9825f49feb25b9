"""How does a rollout go out by a plan that lies in a file? `shoal rollout plan`"""

import argparse
import sys
from pathlib import Path

from shoal_wire.errors import Malformed
from shoal_wire.toml import read_toml

from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.output import print_result, printable
from shoal_fleet.command.parsers import add_command
from shoal_fleet.command.views import RolloutDetail, RolloutPreview, parse

MAX_BYTES = 256 << 10
_NAMES = 20
"""Devices of a wave that are named on a terminal."""


def add_parser(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal rollout plan`."""
    plan = add_command(
        actions,
        "plan",
        summary="roll a release out in waves, by a plan in a file",
        description="Roll a release out by a plan: a TOML file with release, version, target, waves and gates, which\n"
        "docs/rollouts.md explains. Shows which devices are in which wave and asks before it begins.",
        example="shoal rollout plan note-events-2.toml --dry-run",
        run=_plan,
    )
    plan.add_argument("file", type=Path, metavar="FILE", help="TOML; - for standard input")
    plan.add_argument("--dry-run", action="store_true", help="only show which devices are in which wave")
    plan.add_argument("--yes", action="store_true", help="don't ask")


def read_plan(path: Path) -> dict[str, object]:
    """What a plan file says, as the API takes it.

    Raises:
        UsageError: it can't be read, or isn't TOML.
    """
    try:
        raw = sys.stdin.buffer.read(MAX_BYTES + 1) if path == Path("-") else path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{path}: more than {MAX_BYTES} bytes, expected a plan")
    try:
        return read_toml(raw, what=str(path))
    except Malformed as error:
        raise UsageError(str(error)) from None


def _plan(arguments: argparse.Namespace) -> None:
    body = read_plan(arguments.file)
    with Client() as client:
        shown = client.post("/api/v1/rollouts/preview", body)
        preview = parse(shown, RolloutPreview, what="preview")
        if arguments.dry_run:
            print_result(shown, as_json=arguments.json, text=_describe(preview))
            return
        if not arguments.yes:
            _ask(_describe(preview), what=f"{body.get('release')} {body.get('version')}")
        shown = client.post("/api/v1/rollouts", body)
    rollout = parse(shown, RolloutDetail, what="rollout")
    text = f"rollout {rollout.id} is {rollout.state}; to follow it: shoal rollout watch {rollout.id}"
    print_result(shown, as_json=arguments.json, text=text)


def _describe(preview: RolloutPreview) -> str:
    lines = [f"{sum(map(len, preview.waves))} devices"]
    for number, names in enumerate(preview.waves, start=1):
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        lines.append(f"  wave {number}: {len(names)}: {', '.join(names[:_NAMES])}{more}".rstrip(": "))
    return "\n".join(map(printable, lines))


def _ask(preview: str, *, what: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError("expected --yes or --dry-run, as there is no terminal to ask on")
    print(f"{preview}\nRoll out {printable(what)}? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was rolled out")
