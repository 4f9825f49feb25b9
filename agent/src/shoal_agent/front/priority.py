"""May a process be started at low priority, and get its full one back?

Niceness belongs to threads, and only goes up again with CAP_SYS_NICE or as far as RLIMIT_NICE lets it
(setpriority(2)): 20 minus the limit is the least niceness that may be had. The same holds for a thread that only gets
the time that nobody else wants, SCHED_IDLE, and is to leave that (sched(7)).
"""

import contextlib
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

CAP_SYS_NICE = 23  # linux/capability.h
PROC = Path("/proc")


def can_restore(*, proc: Path = PROC) -> bool:
    """Whether a process that was started niced may be brought back to this one's own niceness."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    own = os.getpriority(os.PRIO_PROCESS, 0)
    return soft == resource.RLIM_INFINITY or 20 - soft <= own or _has_capability(proc)


def restore(pid: int, *, proc: Path = PROC) -> None:
    """Give every thread of a process this process's niceness. One that has ended is left to who waits for it."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with contextlib.suppress(OSError):
        for thread in _threads(pid, proc=proc):
            os.setpriority(os.PRIO_PROCESS, thread, own)


@contextlib.contextmanager
def idle_time(pid: int, *, at_most_s: float, proc: Path = PROC) -> Iterator[None]:
    """Within this block a process runs only where nobody else wants to, but for `at_most_s`; then its niceness counts.

    Threads that it starts inherit that.
    """
    end = threading.Timer(at_most_s, _schedule, [pid, os.SCHED_OTHER], {"proc": proc})
    end.daemon = True
    _schedule(pid, os.SCHED_IDLE, proc=proc)
    end.start()
    try:
        yield
    finally:
        end.cancel()
        _schedule(pid, os.SCHED_OTHER, proc=proc)


def _schedule(pid: int, policy: int, *, proc: Path) -> None:
    with contextlib.suppress(OSError):
        for thread in _threads(pid, proc=proc):
            os.sched_setscheduler(thread, policy, os.sched_param(0))


def _threads(pid: int, *, proc: Path) -> list[int]:
    return [int(thread.name) for thread in (proc / str(pid) / "task").iterdir()]


def _has_capability(proc: Path) -> bool:
    for line in (proc / "self" / "status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_NICE & 1)
    return False
