"""How is a worker kept from taking more memory than it may?

Where the daemon got a part of the control group tree to itself (`shoal_agent.daemon.delegation`), each worker has a
group there with a memory.max. One that goes beyond it is killed by the kernel alone, before the board runs short.
"""

import contextlib
import itertools
import os
from pathlib import Path

PROC = Path("/proc")
_NUMBERS = itertools.count(1)


class WorkerGroup:
    """The group of one worker."""

    def __init__(self, folder: Path) -> None:
        """Use `make_group`."""
        self._folder = folder

    def put(self, pid: int) -> None:
        """Move a process into the group. One that has ended already is left to who waits for it."""
        with contextlib.suppress(ProcessLookupError):
            (self._folder / "cgroup.procs").write_text(str(pid))

    def memory_kills(self) -> int:
        """Processes that were killed for having reached the limit (memory.events: oom_kill)."""
        try:
            events = dict(line.split() for line in (self._folder / "memory.events").read_text().splitlines())
        except OSError:
            return 0
        return int(events.get("oom_kill", 0))

    def remove(self) -> None:
        """Forget the group once its process has ended."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def remove_leftovers(parent: Path, *, proc: Path = PROC) -> None:
    """Forget groups below `parent` whose front was killed. One that is in use can't be removed and stays."""
    for folder in parent.glob("worker-*-*"):
        if not (proc / folder.name.split("-")[1]).exists():
            WorkerGroup(folder).remove()


def make_group(parent: Path, *, limit_bytes: int) -> WorkerGroup:
    """A group for a worker below `parent`.

    Raises:
        OSError: it can't be made, or takes no limit.
    """
    folder = parent / f"worker-{os.getpid()}-{next(_NUMBERS)}"
    folder.mkdir()
    try:
        (folder / "memory.max").write_text(str(limit_bytes))
    except OSError:
        folder.rmdir()
        raise
    return WorkerGroup(folder)
