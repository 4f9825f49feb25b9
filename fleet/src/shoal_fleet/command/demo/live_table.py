"""What does a person see while the demo runs? A table of the board and a line for each step."""

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from shoal_fleet.command.demo.sounds import Sound
from shoal_fleet.command.demo.stage import DEVICE, Scene
from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.output import table

_COLUMNS = {
    "name": "DEVICE",
    "release": "MODEL",
    "version": "RELEASE",
    "engine": "ENGINE",
    "state": "STATE",
    "answers_per_s": "ANSWERS/S",
    "p50_ms": "P50 MS",
    "p95_ms": "P95 MS",
}
_PERIOD_S = 0.5
_WINDOW_S = 15


class LiveTable:
    """Draws the board's line twice a second, in a thread of its own. Use as a context manager."""

    def __init__(self, console: Console, scene: Scene) -> None:
        self._scene = scene
        self._sounds: Mapping[str, Sound] = {}
        self._last: dict[str, Any] | None = None
        self._live = Live(console=console, refresh_per_second=4, transient=True)
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

    def show_played(self, sounds: Mapping[str, Sound]) -> None:
        """The scores to show beside what was heard."""
        self._sounds = sounds

    def _work(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            with contextlib.suppress(CommandError):  # the fleet may be ending: the steps say so
                self._live.update(Group(table([self._read_line()], _COLUMNS), self._read_last_answer()))

    def _read_line(self) -> dict[str, Any]:
        client, device = self._scene.client, self._scene.device
        reported = client.get(f"/api/v1/devices/{device}")["reported"]
        line: dict[str, Any] = client.get("/api/v1/telemetry", device=device, window_s=_WINDOW_S)[0]
        line["name"] = DEVICE
        for slot in reported["slots"] if reported else ():
            serving = slot["serving"]
            line |= {"release": slot["release"], "version": serving and serving["version"], "engine": slot["engine"]}
        if reported and reported["update"]:
            line["state"] = f"{reported['update']['state']} (release {reported['update']['target']['version']})"
        return line

    def _read_last_answer(self) -> Text:
        new = self._scene.answers(after=self._last["id"] if self._last else 0)
        self._last = new[-1] if new else self._last
        if self._last is None:
            return Text("no answer yet", style="dim")
        played = self._sounds.get(self._last["item"])
        heard = f"{self._last['item']}  heard  {self._last['words']}"
        return Text(f"{heard}\n{'played ':>{len(self._last['item']) + 9}}{played.played if played else '?'}")
