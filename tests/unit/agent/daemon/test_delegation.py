"""Does the daemon take a control group only where it is its own?

On ordinary folders: what the kernel would refuse isn't refused here, so each refusal below is the daemon's.
"""

from pathlib import Path

import pytest
from shoal_agent.daemon.delegation import claim

PID = 42


@pytest.fixture
def path(tmp_path: Path) -> tuple[Path, ...]:
    own = tmp_path / "agent.service"
    own.mkdir()
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.procs").write_text(f"{PID}\n")
    return (own, tmp_path)


def test_moves_itself_below_and_passes_the_controller_on(path: tuple[Path, ...]) -> None:
    assert claim(path, pid=PID, is_root=False).group == path[0]
    assert (path[0] / "daemon" / "cgroup.procs").read_text() == str(PID)
    assert (path[0] / "cgroup.subtree_control").read_text() == "+memory"


@pytest.mark.parametrize("is_root", [True, False])
def test_never_takes_the_root_of_the_tree(path: tuple[Path, ...], is_root: bool) -> None:
    assert claim((path[1],), pid=PID, is_root=is_root).group is None
    assert claim((), pid=PID, is_root=is_root).group is None


def test_refuses_a_group_without_the_controller(path: tuple[Path, ...]) -> None:
    (path[0] / "cgroup.controllers").write_text("cpu\n")
    assert "no memory controller" in claim(path, pid=PID, is_root=False).reason


def test_refuses_a_group_that_others_are_in(path: tuple[Path, ...]) -> None:
    (path[0] / "cgroup.procs").write_text(f"{PID}\n7\n")
    assert "other processes" in claim(path, pid=PID, is_root=False).reason


def test_root_takes_only_what_the_service_manager_gave(path: tuple[Path, ...]) -> None:
    delegation = claim(path, pid=PID, is_root=True)
    assert delegation.group is None and "isn't delegated" in delegation.reason
    assert not (path[0] / "daemon").exists()


def test_group_that_cannot_be_read_is_none(path: tuple[Path, ...]) -> None:
    (path[0] / "cgroup.controllers").unlink()
    assert "No such file" in claim(path, pid=PID, is_root=False).reason
