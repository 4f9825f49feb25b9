"""What does a person see while the demo runs? A table of the board and a line for each step."""

import threading
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from shoal_fleet.command.client import Client
from shoal_fleet.command.demo.sounds import Sound
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


class LiveTable:
    """Draws the fleet's overview twice a second, in a thread of its own. Use as a context manager."""

    def __init__(self, console: Console, client: Client) -> None:
        self._client = client
        self._sounds: Mapping[str, Sound] = {}
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
            try:
                rows = self._client.get("/api/v1/overview")["devices"]
            except CommandError:
                continue
            self._live.update(Group(table(rows, _COLUMNS), *(self._last_answer(row) for row in rows)))

    def _last_answer(self, row: Mapping[str, Any]) -> Text:
        last = row.get("last_answer")
        if not last:
            return Text("no answer yet", style="dim")
        played = self._sounds.get(last["item"])
        return Text(f"{last['item']}   heard  {last['words']}\n{'':>20} played {played.played if played else '?'}")
