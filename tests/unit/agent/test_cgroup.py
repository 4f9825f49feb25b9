"""Are the limits of a process's control groups read, whatever part of the tree is mounted?"""

from pathlib import Path

import pytest
from shoal_agent.cgroup import MemoryLimit, cpu_quotas, memory_limits, own_path


def board(folder: Path, *, place: str, root: str = "/", kind: str = "cgroup2") -> tuple[Path, Path]:
    """A /proc and a mounted tree, as the kernel would show them."""
    proc, mount = folder / "proc", folder / "mount"
    (proc / "self").mkdir(parents=True)
    mount.mkdir()
    (proc / "self" / "cgroup").write_text(f"1:name=systemd:/elsewhere\n0::{place}\n")
    lines = [
        "22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw",
        f"41 31 0:38 {root} {mount} rw,nosuid shared:9 - {kind} {kind} rw",
    ]
    (proc / "self" / "mountinfo").write_text("\n".join(lines) + "\n")
    return proc, mount


def make_group(group: Path, **files: str) -> None:
    group.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (group / name.replace("_", ".", 1)).write_text(text)


def test_path_goes_from_the_own_group_to_the_root(tmp_path: Path) -> None:
    proc, mount = board(tmp_path, place="/system.slice/agent.service")
    assert own_path(proc=proc) == (mount / "system.slice" / "agent.service", mount / "system.slice", mount)


def test_path_in_a_container_begins_where_its_mount_does(tmp_path: Path) -> None:
    proc, mount = board(tmp_path, place="/docker/abc/work", root="/docker/abc")
    assert own_path(proc=proc) == (mount / "work", mount)


def test_group_outside_of_the_mount_leaves_the_mount(tmp_path: Path) -> None:
    proc, mount = board(tmp_path, place="/other", root="/docker/abc")
    assert own_path(proc=proc) == (mount,)


@pytest.mark.parametrize("kind", ["cgroup", "tmpfs"])
def test_board_without_version_2_has_no_path(tmp_path: Path, kind: str) -> None:
    proc, _ = board(tmp_path, place="/a", kind=kind)
    assert own_path(proc=proc) == ()


def test_quotas_of_all_groups_count(tmp_path: Path) -> None:
    proc, mount = board(tmp_path, place="/a/b")
    make_group(mount / "a" / "b", cpu_max="150000 100000\n")
    make_group(mount / "a", cpu_max="max 100000\n")
    make_group(mount)
    assert cpu_quotas(own_path(proc=proc)) == (1.5,)


def test_memory_that_the_kernel_gives_back_is_not_used(tmp_path: Path) -> None:
    proc, mount = board(tmp_path, place="/a/b")
    make_group(
        mount / "a" / "b", memory_max="1000\n", memory_current="600\n", memory_stat="anon 400\ninactive_file 150\n"
    )
    make_group(mount / "a", memory_max="max\n", memory_current="700\n", memory_stat="")
    assert memory_limits(own_path(proc=proc)) == (MemoryLimit(limit_bytes=1000, used_bytes=450),)
