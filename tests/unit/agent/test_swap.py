"""Which swap is on a disk, and is it forbidden?"""

from pathlib import Path

import pytest
from shoal_agent import cgroup, swap

HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def board(folder: Path, *lines: str, backing: str | None = None) -> tuple[Path, Path]:
    """/proc and /sys of a board that swaps so (proc(5), swaps)."""
    proc, system = folder / "proc", folder / "sys"
    proc.mkdir()
    (proc / "swaps").write_text(HEADER + "".join(f"{line}\n" for line in lines))
    if backing is not None:
        (system / "block/zram0").mkdir(parents=True)
        (system / "block/zram0/backing_dev").write_text(backing + "\n")
    return proc, system


FILE = "/var/swap                               file\t\t102396\t\t0\t\t-2"
ZRAM = "/dev/zram0                              partition\t2097148\t\t0\t\t100"


@pytest.mark.parametrize(
    ("lines", "backing", "expected"),
    [
        ((), None, ()),
        ((FILE,), None, ("/var/swap",)),
        ((ZRAM,), "none", ()),
        ((ZRAM,), None, ()),
        ((ZRAM,), "/dev/mmcblk0p3", ("/dev/zram0",)),
        ((ZRAM, FILE), "none", ("/var/swap",)),
    ],
    ids=["none", "file", "zram", "zram that can't write back", "zram that writes back", "both"],
)
def test_swap_on_a_disk_is_found(
    tmp_path: Path, lines: tuple[str, ...], backing: str | None, expected: tuple[str, ...]
) -> None:
    proc, system = board(tmp_path, *lines, backing=backing)
    assert swap.disk_swaps(proc=proc, system=system) == expected


def test_kernel_without_swap_swaps_nowhere(tmp_path: Path) -> None:
    assert swap.disk_swaps(proc=tmp_path, system=tmp_path) == ()


@pytest.mark.parametrize(
    ("own", "above", "expected"), [("0", "max", True), ("max", "0", True), ("max", "max", False), (None, None, False)]
)
def test_swap_is_forbidden_by_any_group_on_the_way_up(
    tmp_path: Path, own: str | None, above: str | None, expected: bool
) -> None:
    group = tmp_path / "system.slice" / "shoal-agent.service"
    group.mkdir(parents=True)
    for folder, value in ((group, own), (group.parent, above)):
        if value is not None:
            (folder / "memory.swap.max").write_text(value + "\n")
    assert cgroup.is_swap_forbidden((group, group.parent)) is expected
