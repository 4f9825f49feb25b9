"""How is the demo started, and how does it say what it showed?"""

import argparse
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.console import Console
from shoal_wire.update import UpdateState

from shoal_fleet.command.demo import steps
from shoal_fleet.command.demo.evidence import Shown
from shoal_fleet.command.demo.live_table import LiveTable
from shoal_fleet.command.demo.programs import Programs
from shoal_fleet.command.demo.sounds import Sounds
from shoal_fleet.command.demo.stage import Scene, Stage
from shoal_fleet.command.errors import CommandError

_Rest = TypeVar("_Rest")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal demo`."""
    parser = commands.add_parser(
        "demo",
        help="fleet, board and four releases of a real model on this machine",
        description="Start a fleet and a board on this machine and roll four releases of a real model out: "
        "two good ones, one that is too slow and one that is damaged. The board takes the bad ones back by itself.",
        epilog="example: shoal demo --once --json",
    )
    parser.add_argument(
        "--state", type=Path, default=Path(".demo"), help="folder for everything (default: %(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="end after the last step; exit code 0 if all of them held")
    parser.add_argument("--json", action="store_true", help="one JSON object a line for each step")
    parser.set_defaults(run=_run)


class _Reporter:
    """Prints steps as they are shown, and remembers whether all of them held."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.failed: list[str] = []
        self.console = Console(stderr=as_json)

    def show(self, step: str, shown: Shown) -> None:
        if not shown.ok:
            self.failed.append(step)
        if self.as_json:
            line = {"step": step, "ok": shown.ok, "evidence": shown.evidence}
            print(msgspec.json.encode(line).decode(), flush=True)
            return
        mark = "[green]✔[/]" if shown.ok else "[red]✘[/]"
        seconds = f" [dim]{shown.evidence['seconds']} s[/]" if "seconds" in shown.evidence else ""
        self.console.print(f"{mark} [bold]{step}[/]{seconds}", highlight=False)
        self.console.print(f"    {shown.words}", highlight=False, markup=False)
        if not shown.ok:
            self.console.print_json(data=shown.evidence)

    def show_and_return(self, step: str, shown: tuple[Shown, _Rest]) -> _Rest:
        self.show(step, shown[0])
        return shown[1]


def _run(arguments: argparse.Namespace) -> None:
    stage = Stage(arguments.state)
    stage.clear()
    reporter = _Reporter(as_json=arguments.json)
    with Programs(stage.folder, {"SHOAL_LOGIN": str(stage.login)}) as programs:
        url = reporter.show_and_return("start", steps.start_fleet(stage, programs))
        scene = reporter.show_and_return("enrol", steps.enrol(stage, programs))
        with _table(reporter, scene) as show_played:
            reporter.show("model", steps.fetch_model(stage, programs))
            sounds = steps.start_sounds(stage, programs)
            show_played(sounds)
            _roll_releases_out(scene, reporter)
            if arguments.once:
                reporter.show("answers", steps.account_for_sounds(scene, sounds))
            else:
                _stay_up(url, reporter)
    if reporter.failed:
        raise CommandError(f"not shown: {', '.join(reporter.failed)}; the programs' logs are in {stage.folder}/logs")


def _roll_releases_out(scene: Scene, reporter: _Reporter) -> None:
    """Two releases that are good, and two that the board must not keep."""
    reporter.show("release 1: first install", steps.roll_out(scene, 1, steps.expect_committed)[0])
    update = steps.roll_out(scene, 2, steps.expect_committed)
    good = reporter.show_and_return("release 2: better parameters, same weights", update)
    too_slow = steps.expect_back_to(good, state=UpdateState.FELL_BACK, why="p95")
    reporter.show("release 3: right but too slow, taken back", steps.roll_out(scene, 3, too_slow)[0])
    damaged = steps.expect_back_to(good, state=UpdateState.REFUSED, why="golden")
    reporter.show("release 4: damaged weights, refused", steps.roll_out(scene, 4, damaged)[0])


@contextmanager
def _table(reporter: _Reporter, scene: Scene) -> Iterator[Callable[[Sounds], None]]:
    """The live table where somebody watches; gives a function that tells it which sounds are played."""
    if reporter.as_json or not sys.stdout.isatty():
        yield lambda _sounds: None
        return
    with LiveTable(reporter.console, scene) as live:
        yield lambda sounds: live.show_played(sounds.placed())


def _stay_up(url: str, reporter: _Reporter) -> None:
    reporter.console.print(f"\nstatus page  {url}/status\nAPI          {url}/docs", highlight=False)
    reporter.console.print("sign in with any user name and the token in the operator's login file", highlight=False)
    reporter.console.print("Ctrl-C ends everything", highlight=False)
    threading.Event().wait()
