"""Which control group is this process in, and what do it and those above it allow?

Control groups of version 2 only (kernel.org, "Control Group v2"). A limit binds everything below the group that has it,
so the whole path counts, up to the root of the mounted tree or to what a container shows of it. On a board that has
only version 1, or none, there are no limits to be seen.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

PROC = Path("/proc")
NO_LIMIT = "max"


class MemoryLimit(NamedTuple):
    """Of one group: `used_bytes` leaves out what the kernel gives back when asked (file pages that nobody uses)."""

    limit_bytes: int
    used_bytes: int


def own_path(*, proc: Path = PROC) -> tuple[Path, ...]:
    """This process's group and those above it, nearest first; empty where there is no version 2."""
    place = _own_place(proc)
    mount = _mount(proc)
    if place is None or mount is None:
        return ()
    root, folder = mount
    try:
        below = PurePosixPath(place).relative_to(root)
    except ValueError:  # the process was put outside of what is mounted here: only the mount itself is known
        below = PurePosixPath()
    own = folder / below
    return (own, *(parent for parent in own.parents if parent == folder or folder in parent.parents))


def cpu_quotas(path: tuple[Path, ...]) -> tuple[float, ...]:
    """Processors' worth of time that each group allows, of those that limit it (cpu.max: µs in a period of µs)."""
    quotas = []
    for group in path:
        fields = _read(group / "cpu.max").split()
        if len(fields) == 2 and fields[0] != NO_LIMIT:
            quotas.append(int(fields[0]) / int(fields[1]))
    return tuple(quotas)


def memory_limits(path: tuple[Path, ...]) -> tuple[MemoryLimit, ...]:
    """Memory of each group that limits it."""
    return tuple(_memory_limits(path))


def is_swap_forbidden(path: tuple[Path, ...]) -> bool:
    """Whether one of the groups lets nothing of its processes be swapped."""
    return any(_read(group / "memory.swap.max").strip() == "0" for group in path)


def _memory_limits(path: tuple[Path, ...]) -> Iterator[MemoryLimit]:
    for group in path:
        limit, used = _read(group / "memory.max").strip(), _read(group / "memory.current").strip()
        if limit and used and limit != NO_LIMIT:
            statistics = dict(line.split() for line in _read(group / "memory.stat").splitlines())
            yield MemoryLimit(int(limit), max(0, int(used) - int(statistics.get("inactive_file", 0))))


def _own_place(proc: Path) -> str | None:
    for line in _read(proc / "self" / "cgroup").splitlines():
        number, controllers, place = line.split(":", 2)
        if (number, controllers) == ("0", ""):
            return place
    return None


def _mount(proc: Path) -> tuple[str, Path] | None:
    """Which part of the tree is mounted, and where (proc(5), mountinfo: fields 4 and 5)."""
    for line in _read(proc / "self" / "mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if after.split(" ", 1)[0] == "cgroup2":
            fields = before.split()
            return fields[3], Path(fields[4])
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the controller isn't there, or the group has gone
        return ""
