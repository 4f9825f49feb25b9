"""May a process be started at low priority, and get its full one back?

Niceness belongs to threads, and only goes up again with CAP_SYS_NICE or as far as RLIMIT_NICE lets it
(setpriority(2)): 20 minus the limit is the least niceness that may be had.
"""

import contextlib
import os
import resource
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
        for thread in (proc / str(pid) / "task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), own)


def _has_capability(proc: Path) -> bool:
    for line in (proc / "self" / "status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> CAP_SYS_NICE & 1)
    return False
