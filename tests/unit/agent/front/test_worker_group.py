"""Does a worker's control group get its limit and its process? On an ordinary folder, which has no rules of its own."""

from pathlib import Path

from shoal_agent.front.worker_group import make_group, remove_leftovers


def test_group_has_limit_and_process(tmp_path: Path) -> None:
    group = make_group(tmp_path, limit_bytes=12_345)
    group.put(77)
    (folder,) = tmp_path.iterdir()
    assert (folder / "memory.max").read_text() == "12345"
    assert (folder / "cgroup.procs").read_text() == "77"
    assert group.memory_kills() == 0
    (folder / "memory.events").write_text("low 0\nmax 3\noom 1\noom_kill 1\n")
    assert group.memory_kills() == 1


def test_two_workers_have_two_groups(tmp_path: Path) -> None:
    make_group(tmp_path, limit_bytes=1)
    make_group(tmp_path, limit_bytes=1)
    assert len(list(tmp_path.iterdir())) == 2


def test_group_goes_when_it_is_empty(tmp_path: Path) -> None:
    group = make_group(tmp_path, limit_bytes=1)
    (folder,) = tmp_path.iterdir()
    (folder / "memory.max").unlink()  # the kernel's files go with their folder
    group.remove()
    assert list(tmp_path.iterdir()) == []
    group.remove()


def test_groups_of_a_front_that_is_gone_are_removed(tmp_path: Path) -> None:
    proc, parent = tmp_path / "proc", tmp_path / "groups"
    for folder in (proc / "12", parent / "worker-12-1", parent / "worker-13-1", parent / "daemon"):
        folder.mkdir(parents=True)
    remove_leftovers(parent, proc=proc)
    assert sorted(folder.name for folder in parent.iterdir()) == ["daemon", "worker-12-1"]
