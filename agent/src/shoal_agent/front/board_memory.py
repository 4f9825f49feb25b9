"""How much memory does the board have left, and how much does a worker hold?"""

from pathlib import Path

from shoal_agent import cgroup
from shoal_agent.front.admission import Room

PROC = Path("/proc")


def read_room(*, proc: Path = PROC) -> Room:
    """What a new worker may count on (proc(5): MemAvailable, and the limits of this process's control groups)."""
    available = _field(proc / "meminfo", "MemAvailable:") or 0
    return Room(available * 1024, cgroup.memory_limits(cgroup.own_path(proc=proc)))


def resident_bytes(pid: int, *, proc: Path = PROC) -> int:
    """What a process holds now (VmRSS); 0 when it has ended."""
    return (_field(proc / str(pid) / "status", "VmRSS:") or 0) * 1024


def peak_bytes(pid: int, *, proc: Path = PROC) -> int:
    """The most that a process has held so far (VmHWM); 0 when it has ended."""
    return (_field(proc / str(pid) / "status", "VmHWM:") or 0) * 1024


def count_memory_kills(*, proc: Path = PROC) -> int:
    """Processes that the kernel killed for want of memory since it started (/proc/vmstat, from Linux 4.13 on)."""
    return _field(proc / "vmstat", "oom_kill") or 0


def _field(path: Path, name: str) -> int | None:
    """The first number of the line that begins with `name`; None without such a line."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)
