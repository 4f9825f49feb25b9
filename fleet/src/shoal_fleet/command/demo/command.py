"""How is the demo started, and how does it say what it showed?"""

import argparse
import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn, TypeVar

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from shoal_wire.errors import WireError
from shoal_wire.update import UpdateState

from shoal_fleet.command.demo import digits, rollouts, steps
from shoal_fleet.command.demo.boards import BOARDS, FACES, boards_with
from shoal_fleet.command.demo.evidence import Shown
from shoal_fleet.command.demo.live_table import LiveTable
from shoal_fleet.command.demo.programs import Programs, command
from shoal_fleet.command.demo.stage import Scene, Stage
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.output import printable
from shoal_fleet.command.parsers import add_command

_Rest = TypeVar("_Rest")
_CHECK_S = 1.0

_TITLES = {
    "start": "The fleet starts, with its broker",
    "enrol": "Three boards enrol with one-time tokens, each with another engine",
    "models": "Two real models are fetched, and five releases are built",
    "release-1": "Release 1: the first install, on each board in its engine's own format",
    "release-2": "Release 2: better, with the same weights",
    "release-3": "Release 3: right but too slow, so each board goes back",
    "release-4": "Release 4: damaged weights, so each board refuses it",
    "faces": "A second model, face detection, on the boards that read it",
    "digits-fp32": "A third model, digits, which the workbench made from a recipe, in fp32",
    "digits-int8": "The same in INT8: as right, and what that gains in size and speed",
    "answers": "Every sound, every photograph and every digit has exactly one answer",
}
"""The steps in their order, as people read them."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `shoal demo`."""
    parser = add_command(
        commands,
        "demo",
        summary="fleet, three boards and seven releases of three models on this machine",
        description="Start a fleet and three boards on this machine, each with another engine, and roll four releases\n"
        "of a real model out: two good ones, one that is too slow and one that is damaged. The boards take\n"
        "the bad ones back by themselves. Then a second model goes to the two boards that read it, and a third\n"
        "one, which the workbench makes meanwhile, to the last board: in fp32 first, in INT8 then.\n"
        "It takes about two minutes, then stays up until Ctrl-C. It listens on loopback only.",
        example="shoal demo --once --json",
        run=_run,
    )
    parser.add_argument(
        "--state", type=Path, default=Path(".demo"), help="folder for everything (default: %(default)s)"
    )
    parser.add_argument("--once", action="store_true", help="end after the last step; exit code 0 if all of them held")


class _Reporter:
    """Prints steps as they are shown, and remembers whether all of them held."""

    def __init__(self, console: Console, live: LiveTable | None, *, as_json: bool) -> None:
        self.console = console
        self.live = live
        self.as_json = as_json
        self.failed: list[str] = []

    def take(self, step: str, act: Callable[[], tuple[Shown, _Rest]]) -> _Rest:
        """Take a step and print what it showed.

        Raises:
            CommandError: it couldn't be taken to its end; that was printed as well.
        """
        if self.live is not None:
            self.live.show_step(_TITLES[step])
        started = time.monotonic()
        try:
            shown, rest = act()
        except (CommandError, WireError) as error:
            self._print(step, Shown(ok=False, evidence={"error": str(error)}, words=()), since=started)
            raise
        self._print(step, shown, since=started)
        return rest

    def _print(self, step: str, shown: Shown, *, since: float) -> None:
        seconds = round(time.monotonic() - since, 1)
        if not shown.ok:
            self.failed.append(step)
        if self.as_json:
            line = {"step": step, "ok": shown.ok, "evidence": {**shown.evidence, "seconds": seconds}}
            print(msgspec.json.encode(line).decode(), flush=True)
            return
        mark = ("✔ ", "green") if shown.ok else ("✘ ", "red")
        self.console.print(Text.assemble(mark, (_TITLES[step], "bold"), (f"  {seconds} s", "dim")))
        self.console.print(Padding(_in_words(shown), (0, 0, 0, 2)))
        if not shown.ok:
            self.console.print_json(msgspec.json.encode(shown.evidence).decode())


def _run(arguments: argparse.Namespace) -> None:
    stage = Stage(arguments.state)
    signal.signal(signal.SIGTERM, _end_in_order)
    programs = Programs(stage.logs, {"SHOAL_LOGIN": str(stage.login)})
    # The live table, which is entered last, ends before the programs that it asks.
    with stage.cleared(), programs, contextlib.ExitStack() as watching:
        reporter = _open_reporter(watching, as_json=arguments.json)
        try:
            _show(stage, programs, reporter, stays=not arguments.once)
        except CommandError as error:
            raise CommandError(f"{error}; the programs' logs are in {_short(stage.logs)}") from None
    if reporter.failed:
        raise CommandError(f"not shown: {', '.join(reporter.failed)}; the programs' logs are in {_short(stage.logs)}")


def _show(stage: Stage, programs: Programs, reporter: _Reporter, *, stays: bool) -> None:
    building, later = steps.begin_releases(stage, programs), digits.begin_building(stage, programs)
    url = reporter.take("start", lambda: steps.start_fleet(stage, programs))
    scene = reporter.take("enrol", lambda: steps.enrol(stage, programs))
    if reporter.live is not None:
        reporter.live.show_boards(scene)
    reporter.take("models", lambda: steps.take_releases(scene, building))
    _roll_releases_out(scene, reporter)
    steps.show_digits(scene)
    reporter.take("digits-fp32", lambda: digits.roll_out_fp32(scene, later))
    reporter.take("digits-int8", lambda: digits.roll_out_int8(scene))
    if stays:
        _stay_up(url, scene, reporter)
    else:
        reporter.take("answers", lambda: steps.account_for_items(scene))


def _roll_releases_out(scene: Scene, reporter: _Reporter) -> None:
    """Two releases that are good, two that no board must keep, and one of another model."""
    commit, take_back = partial(rollouts.commit, scene), partial(rollouts.take_back, scene, boards=BOARDS)
    fell_back, refused = UpdateState.FELL_BACK, UpdateState.REFUSED
    reporter.take("release-1", lambda: commit("release-1", boards=BOARDS, fetches_weights=True))
    good = reporter.take("release-2", lambda: commit("release-2", boards=BOARDS, fetches_weights=False))
    reporter.take("release-3", lambda: take_back("release-3", good=good, state=fell_back, why="p95"))
    reporter.take("release-4", lambda: take_back("release-4", good=good, state=refused, why="golden cases: "))
    steps.show_photographs(scene)
    reporter.take("faces", lambda: commit("face-1", boards=boards_with(FACES), fetches_weights=True))


def _open_reporter(watching: contextlib.ExitStack, *, as_json: bool) -> _Reporter:
    """With the live table where somebody watches."""
    console = Console(highlight=False)
    is_watched = sys.stdout.isatty() and not as_json
    live = watching.enter_context(LiveTable(console)) if is_watched else None
    return _Reporter(console, live, as_json=as_json)


def _in_words(shown: Shown) -> RenderableType:
    boards = Table.grid(padding=(0, 2))
    for name, lines in shown.boards.items():
        boards.add_row(name, Text("\n".join(printable(line) for line in lines if line)))
    return Group(*([boards] if shown.boards else []), *(Text(printable(line)) for line in shown.words))


def _stay_up(url: str, scene: Scene, reporter: _Reporter) -> None:
    """Say where to look, and wait for Ctrl-C.

    Raises:
        CommandError: one of the programs ended.
    """
    if not reporter.as_json:
        reporter.console.print(Text(_where_to_look(url, scene.stage)), soft_wrap=True)
    if reporter.live is not None:
        reporter.live.show_step("")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            scene.programs.check()
            time.sleep(_CHECK_S)


def _where_to_look(url: str, stage: Stage) -> str:
    fleet = shlex.quote(_short(Path(command("shoal-fleet"))))
    shoal = shlex.quote(_short(Path(command("shoal"))))
    state, login = shlex.quote(_short(stage.fleet)), shlex.quote(_short(stage.login))
    return f"""
Everything stays up until Ctrl-C. In a browser:
  status page  {url}/status
  API          {url}/docs
It asks you to log in. To make a user, with a password of your own:
  {fleet} user add me --role viewer --state {state}
It will warn that it doesn't know the demo's own certificate authority.
As an operator, in another terminal:
  SHOAL_LOGIN={login} {shoal} device list"""


def _end_in_order(_number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM ends the demo as Ctrl-C does."""
    raise KeyboardInterrupt


def _short(path: Path) -> str:
    """The path as a user here would type it."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
