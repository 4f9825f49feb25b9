"""What does a person see while the demo runs? What it is at, the board in a table, and the last answer."""

import contextlib
import threading
from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text
from shoal_wire.errors import WireError

from shoal_fleet.command.demo.sounds import Sound
from shoal_fleet.command.demo.stage import DEVICE, Scene
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.output import Columns, printable, table
from shoal_fleet.command.views import Answer, Device, Pace, parse


class _Line(NamedTuple):
    """The board, as the fleet knows it now."""

    release: str
    engine: str
    state: str
    pace: Pace


_COLUMNS: Columns[_Line] = {
    "DEVICE": lambda line: DEVICE,
    "RELEASE": lambda line: line.release,
    "ENGINE": lambda line: line.engine,
    "STATE": lambda line: line.state,
    "ANSWERS/S": lambda line: _number(line.pace.answers_per_s, digits=1),
    "P50/P95 MS": lambda line: f"{_number(line.pace.p50_ms)}/{_number(line.pace.p95_ms)}",
}
_PERIOD_S = 0.5
_WINDOW_S = 15
_SERVING = {"committed": "serving"}
"""The one state of an update that is said in another word: it is over, and the release serves."""


class LiveTable:
    """Draws below what is printed, twice a second, in a thread of its own. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._scene: Scene | None = None
        self._sounds: Mapping[str, Sound] = {}
        self._last: Answer | None = None
        self._step: RenderableType = Text("")
        self._board: tuple[RenderableType, ...] = ()
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

    def show_board(self, scene: Scene) -> None:
        """Show the board from now on."""
        self._scene = scene

    def show_played(self, sounds: Mapping[str, Sound]) -> None:
        """The scores to show beside what was heard."""
        self._sounds = sounds

    def _draw(self) -> RenderableType:
        return Group(self._step, *self._board)

    def _work(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            if self._scene is not None:
                with contextlib.suppress(CommandError, WireError):  # the fleet may be ending: the steps say so
                    self._board = (Text(""), table([_read_line(self._scene)], _COLUMNS), self._read_last(self._scene))

    def _read_last(self, scene: Scene) -> Text:
        new = scene.answers(after=self._last.id if self._last else 0)
        self._last = new[-1] if new else self._last
        if self._last is None:
            return Text("\nno answer yet", style="dim")
        sound = self._sounds.get(self._last.item)
        lines = ["", f"last answer, to {self._last.item}", f"  heard   {self._last.words}"]
        lines.append(f"  played  {sound.played if sound else '?'}")
        return Text("\n".join(map(printable, lines)), no_wrap=True, overflow="ellipsis")


def _read_line(scene: Scene) -> _Line:
    device = parse(scene.client.get(f"/api/v1/devices/{scene.device}"), Device, what="device")
    shown = scene.client.get("/api/v1/telemetry", device=scene.device, window_s=_WINDOW_S)
    pace = next(iter(parse(shown, list[Pace], what="telemetry")), Pace(None, None, None))
    slot = next(iter(device.reported.slots), None) if device.reported else None
    update = device.reported.update if device.reported else None
    return _Line(
        release=f"{slot.release} {slot.serving.version}" if slot and slot.serving else "",
        engine=slot.engine if slot else "",
        state=_SERVING.get(update.state, f"{update.state} ({update.target.version})") if update else "",
        pace=pace,
    )


def _number(value: float | None, *, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
