"""How does a program under test stop at a place that a test names, so that the test can kill whatever it likes there?

Programs of tests call `halt` at their places. A test that arms a place finds the next process that comes by there
halted, with its id. Places: `before-S-T` and `after-S-T` at the journal's write that leads from state S to T, `enter-T`
after any write that enters T, `append` before each write to a file that is being fetched; `load`, `run`, each with
`serving-` or `checking-` before it, in a worker.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

POLL_S = 0.01
REACHED_WITHIN_S = 90.0


def halt(control: Path, place: str, *, pid: int | None = None) -> None:
    """Wait here for as long as the place is armed; as the process `pid` where it isn't this one."""
    armed, reached = _paths(control, place)
    if not armed.exists():
        return
    unfinished = reached.with_suffix(".unfinished")
    unfinished.write_text(str(pid or os.getpid()))
    unfinished.replace(reached)
    while armed.exists():
        time.sleep(POLL_S)


class Place:
    """An armed place, on the test's side."""

    def __init__(self, control: Path, name: str) -> None:
        self.name = name
        self._armed, self._reached = _paths(control, name)
        self._armed.touch()

    def wait(self) -> int:
        """Id of the process that is halted here, once there is one."""
        deadline = time.monotonic() + REACHED_WITHIN_S
        while not self._reached.exists():
            assert time.monotonic() < deadline, f"nobody came by at {self.name}"
            time.sleep(POLL_S)
        return int(self._reached.read_text())

    def open(self) -> None:
        """Let go whoever is halted here, and whoever comes."""
        self._armed.unlink(missing_ok=True)
        self._reached.unlink(missing_ok=True)


@contextlib.contextmanager
def armed(control: Path, name: str) -> Iterator[Place]:
    """A place that is armed until it is opened, at the end at the latest."""
    place = Place(control, name)
    try:
        yield place
    finally:
        place.open()


def _paths(control: Path, name: str) -> tuple[Path, Path]:
    return control / f"{name}.armed", control / f"{name}.reached"
