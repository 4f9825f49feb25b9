"""How much memory does each of the agent's processes hold?

From /proc: PSS of `smaps_rollup`, which shares out common pages, and RSS of `statm`. A process that keeps its memory
from being looked at (it holds keys or weights) shows no PSS to anyone but root: its RSS stands in, which is never less.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_PSS = re.compile(rb"^Pss:\s+(\d+) kB$", re.MULTILINE)
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Memory(NamedTuple):
    """Of one process."""

    pss_bytes: int
    rss_bytes: int


def read_memory(pid: int, *, proc: Path = PROC) -> Memory | None:
    """Memory of a process; None when it has ended."""
    try:
        rss_bytes = int((proc / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return None
    try:
        found = _PSS.search((proc / str(pid) / "smaps_rollup").read_bytes())
    except OSError:
        found = None
    return Memory(int(found[1]) * 1024 if found else rss_bytes, rss_bytes)


def children(pid: int, *, proc: Path = PROC) -> list[int]:
    """Processes that a process started and that have not ended."""
    found: list[int] = []
    try:
        for thread in (proc / str(pid) / "task").iterdir():
            found += map(int, (thread / "children").read_text().split())
    except OSError:
        return found
    return sorted(found)
