"""Is memory read as the kernel writes it, also where it shows less?"""

import os
from pathlib import Path

from shoal_agent.daemon.memory import Memory, children, read_memory

PAGE = os.sysconf("SC_PAGE_SIZE")
ROLLUP = """7f0000000000-7ffff0000000 ---p 00000000 00:00 0    [rollup]
Rss:               44000 kB
Pss:               30123 kB
Pss_Anon:          20000 kB
"""


def make_process(proc: Path, pid: int, *, rollup: str | None) -> None:
    folder = proc / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True)
    (folder / "task" / str(pid + 1)).mkdir()
    (folder / "statm").write_text("90000 11000 3000 1 0 50000 0\n")
    (folder / "task" / str(pid) / "children").write_text("30 20 ")
    (folder / "task" / str(pid + 1) / "children").write_text("40 ")
    if rollup is not None:
        (folder / "smaps_rollup").write_text(rollup)


def test_reads_pss_and_rss_of_one_moment(tmp_path: Path) -> None:
    """The kernel's quick count, statm, may lag behind: here it says less than PSS."""
    make_process(tmp_path, 7, rollup=ROLLUP)
    (tmp_path / "7/statm").write_text("90000 3000 3000 1 0 50000 0\n")
    assert read_memory(7, proc=tmp_path) == Memory(30123 * 1024, 44000 * 1024)


def test_rss_stands_in_where_pss_is_not_shown(tmp_path: Path) -> None:
    make_process(tmp_path, 7, rollup=None)
    assert read_memory(7, proc=tmp_path) == Memory(11000 * PAGE, 11000 * PAGE)


def test_a_process_that_has_ended_has_none(tmp_path: Path) -> None:
    assert read_memory(7, proc=tmp_path) is None
    assert children(7, proc=tmp_path) == []


def test_a_process_that_has_ended_unnoticed_has_none() -> None:
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert read_memory(pid) is None
    os.waitpid(pid, 0)


def test_finds_children_of_every_thread(tmp_path: Path) -> None:
    make_process(tmp_path, 7, rollup=None)
    assert children(7, proc=tmp_path) == [20, 30, 40]
