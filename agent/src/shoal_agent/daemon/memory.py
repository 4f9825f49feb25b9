"""How much memory does each of the agent's processes hold?

From /proc: `smaps_rollup`, whose PSS shares out common pages, in one reading, since a process that is starting grows
between two. A process that keeps its memory from being looked at (it holds keys or weights) shows none of that to
anyone but root: RSS from `statm` stands in for both, which is never less than PSS.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_KIB = re.compile(rb"^(Rss|Pss):\s+(\d+) kB$", re.MULTILINE)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """Of one process."""

    pss_bytes: int
    rss_bytes: int


def read_memory(pid: int, *, proc: Path = PROC) -> Memory | None:
    """Memory of a process; None when it has ended, also where its parent has yet to take note of that."""
    process = proc / str(pid)
    try:
        kib = {name: int(value) for name, value in _KIB.findall((process / "smaps_rollup").read_bytes())}
    except OSError:
        kib = {}
    if kib.get(b"Rss") and b"Pss" in kib:
        return Memory(kib[b"Pss"] * 1024, kib[b"Rss"] * 1024)
    try:
        rss_bytes = int((process / "statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return None
    return Memory(rss_bytes, rss_bytes) if rss_bytes else None


def children(pid: int, *, proc: Path = PROC) -> list[int]:
    """Processes that a process started and that have not ended."""
    found: list[int] = []
    try:
        for thread in (proc / str(pid) / "task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except OSError:
        return found
    return sorted(found)
