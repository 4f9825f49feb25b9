"""How is memory of the agent, with keys and weights in plain, kept off disks that the system swaps to?

Three things do it, each by itself: the system swaps to no disk; a control group of the service forbids swap
(MemorySwapMax=0 of its unit, where the kernel has the memory controller); the processes lock their memory (the unit's
LimitMEMLOCK=infinity). Compressed swap in memory (zram) is no disk, unless it was given one to write back to.
"""

import mmap
import os
from collections.abc import Iterable
from pathlib import Path

from shoal_worker.memory import map_present
from shoal_worker.process import lock_memory

from shoal_agent import cgroup

PROC = Path("/proc")
SYSTEM = Path("/sys")


def keep_out_of_swap() -> str:
    """Lock this process's memory unless swap is forbidden to it; why it may be swapped to a disk, empty where it can't.

    Memory files are locked only where they are mapped: `hold`.
    """
    if not needs_lock() or lock_memory():
        return ""
    places = disk_swaps()
    if not places:
        return ""
    return (
        f"the system swaps to {', '.join(places)}, no control group forbids it, and this user may not lock its memory: "
        "set MemorySwapMax=0 and LimitMEMLOCK=infinity in the agent's unit, or turn that swap off"
    )


def needs_lock() -> bool:
    """Whether no control group forbids this process swap. What swaps there are may change while it lives."""
    return not cgroup.is_swap_forbidden(cgroup.own_path())


def hold(fds: Iterable[int]) -> tuple[mmap.mmap, ...]:
    """Map memory files, so that the lock covers them for as long as the caller keeps the maps; none where none is
    needed."""
    return tuple(map_present(fd) for fd in fds if os.fstat(fd).st_size) if needs_lock() else ()


def disk_swaps(*, proc: Path = PROC, system: Path = SYSTEM) -> tuple[str, ...]:
    """Files and devices that the system swaps to and that aren't memory (proc(5), swaps)."""
    try:
        lines = (proc / "swaps").read_text().splitlines()[1:]
    except OSError:  # a kernel without swap
        return ()
    return tuple(place for place in (line.split()[0] for line in lines if line) if not _is_memory(place, system))


def _is_memory(place: str, system: Path) -> bool:
    """Whether it is compressed memory without a disk behind it (kernel documentation, "zram": backing_dev)."""
    name = Path(place).name
    if not name.startswith("zram"):
        return False
    try:
        return (system / "block" / name / "backing_dev").read_text().strip() == "none"
    except OSError:  # built without a way to write back
        return True
