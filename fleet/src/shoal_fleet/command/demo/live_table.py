"""What does a person see while the demo runs? What it is at, the boards in a table, and what each answered last."""

import contextlib
import threading
from collections import Counter
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text
from shoal_wire.errors import WireError
from shoal_wire.update import FAILED, UpdateState

from shoal_fleet.command.demo.boards import BOARDS, Board, Feed
from shoal_fleet.command.demo.stage import Scene
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.output import Columns, table
from shoal_fleet.command.views import Answer, Device, Pace, Update, parse


class Line(NamedTuple):
    """A board, as the fleet knows it now."""

    board: str
    engine: str = ""
    releases: str = ""
    state: str = ""
    answers: int = 0
    pace: Pace | None = None


class Said(NamedTuple):
    """What a board answered last to a kind of item, beside what was in the item."""

    board: str
    source: str
    answer: str
    placed: str


_COLUMNS: Columns[Line] = {
    "BOARD": lambda line: line.board,
    "ENGINE": lambda line: line.engine,
    "RELEASES": lambda line: line.releases,
    "STATE": lambda line: line.state,
    "ANSWERS": lambda line: line.answers,
    "P50/P95 MS": lambda line: f"{_number(line.pace.p50_ms)}/{_number(line.pace.p95_ms)}" if line.pace else "",
}
_LAST_COLUMNS: Columns[Said] = {
    "BOARD": lambda said: said.board,
    "GIVEN": lambda said: said.source,
    "LAST ANSWER": lambda said: said.answer,
    "AS PLACED": lambda said: said.placed,
}
_PERIOD_S = 1.0
_WINDOW_S = 15
_FAILED = {state.value for state in FAILED}
"""An update in one of these is over: what was there before serves."""


class LiveTable:
    """Draws below what is printed, and asks the fleet once a second, in a thread. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._scene: Scene | None = None
        self._told = Told()
        self._step: RenderableType = Text("")
        self._boards: tuple[RenderableType, ...] = ()
        self._live = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._draw)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work, name="live-table", daemon=True)

    def __enter__(self) -> "LiveTable":
        self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._live.stop()

    def show_step(self, title: str) -> None:
        """Say what the demo is at; nothing where the title is empty."""
        self._step = Spinner("dots", Text(title)) if title else Text("")

    def show_boards(self, scene: Scene) -> None:
        """Show the boards from now on."""
        self._scene = scene

    def _draw(self) -> RenderableType:
        return Group(self._step, *self._boards)

    def _work(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            if self._scene is not None:
                with contextlib.suppress(CommandError, WireError):  # the fleet may be ending: the steps say so
                    self._boards = self._read(self._scene)

    def _read(self, scene: Scene) -> tuple[RenderableType, ...]:
        self._told.take(scene.answers(after=self._told.newest))
        devices = {one.id: one for one in parse(scene.client.get("/api/v1/devices"), list[Device], what="devices")}
        measured = scene.client.get("/api/v1/telemetry", window_s=_WINDOW_S)
        paces = {one.device: one for one in parse(measured, list[Pace], what="telemetry")}
        ids = {board: scene.devices[board.name] for board in BOARDS}
        lines = [
            describe(board, devices.get(device), answers=self._told.counts[device], pace=paces.get(device))
            for board, device in ids.items()
        ]
        last = [self._say(scene, board, feed) for board in BOARDS for feed in board.feeds]
        said = [one for one in last if one]
        answered: tuple[RenderableType, ...] = (Text(""), _one_line_each(said)) if said else ()
        return (Text(""), _boards(lines), *answered)

    def _say(self, scene: Scene, board: Board, feed: Feed) -> Said | None:
        answer = self._told.last.get((scene.devices[board.name], feed.source))
        if answer is None:
            return None
        item = scene.placed(board, feed).get(answer.item)
        return Said(board.name, source=feed.source, answer=answer.words, placed=item.words if item else "?")


class Told:
    """All answers that were read so far: their number by device, and the last one by device and source."""

    def __init__(self) -> None:
        self.newest = 0
        self.counts: Counter[str] = Counter()
        self.last: dict[tuple[str, str], Answer] = {}

    def take(self, answers: list[Answer]) -> None:
        """Count the answers that came after `newest`."""
        for answer in answers:
            self.counts[answer.device] += 1
            self.last[answer.device, answer.source] = answer
            self.newest = answer.id


def describe(board: Board, device: Device | None, *, answers: int, pace: Pace | None) -> Line:
    """A board's line in the table."""
    reported = device.reported if device else None
    if reported is None:
        return Line(board.name, answers=answers, pace=pace)
    serving = [slot for slot in reported.slots if slot.serving]
    update = reported.update
    return Line(
        board.name,
        engine=", ".join(sorted({slot.engine for slot in serving})),
        releases=", ".join(f"{slot.release} {slot.serving.version}" for slot in serving if slot.serving),
        state=_describe_state(update) if update else "",
        answers=answers,
        pace=pace,
    )


def _describe_state(update: Update) -> str:
    if update.state == UpdateState.COMMITTED.value:
        return "serving"
    return f"{'serving, ' if update.state in _FAILED else ''}{update.state} {update.target.version}"


def _boards(lines: list[Line]) -> Table:
    """Where there is little room, releases and states go on in the next line, and names don't."""
    drawn = table(lines, _COLUMNS)
    for column in drawn.columns[:2]:
        column.no_wrap = True
    return drawn


def _one_line_each(said: list[Said]) -> Table:
    """What doesn't fit is cut off, of answers and what was placed alike."""
    drawn = table(said, _LAST_COLUMNS)
    drawn.expand = True
    for column in drawn.columns:
        column.no_wrap, column.overflow = True, "ellipsis"
    for column in drawn.columns[2:]:
        column.ratio = 1
    return drawn


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
