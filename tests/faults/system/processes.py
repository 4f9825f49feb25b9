"""Which processes live, whose children are they, and are they gone?"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

DEADLINE_S = 90.0


class Process(NamedTuple):
    """A process that is no zombie."""

    pid: int
    parent: int
    session: int
    command: str


def in_session(session: int) -> list[Process]:
    """All of a session, which a daemon under test begins."""
    return [process for process in _all() if process.session == session]


def parent_of(pid: int) -> int:
    return next(process.parent for process in _all() if process.pid == pid)


def kill(*pids: int) -> None:
    """SIGKILL, to processes that a test started."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def wait_for(is_true: Callable[[], object], *, what: Callable[[], object] | str) -> None:
    """Poll until it holds. `what` is said where it doesn't."""
    deadline = time.monotonic() + DEADLINE_S
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.1)


def _all() -> list[Process]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            found.append(Process(int(entry.name), int(parent), int(session), command))
    return found
