"""Does a board say which agent runs on it, and whether that has yet to prove itself?"""

from pathlib import Path

import pytest
from shoal_agent.files import DiskFiles
from shoal_agent.own_trees import NOT_LAUNCHED, Launch, OwnTrees
from shoal_agent.status import Status, read_status, write_status

from tests.unit.agent.test_state import write

TREE = "0.2.0-0123456789ab"


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """An agent that the launcher of a package started."""
    write(tmp_path)
    return Launch(tmp_path / "agent", "", "0.1.0")


def agent_line(status: Status) -> str:
    return next(line for line in write_status(status).splitlines() if line.startswith("agent"))


def test_the_packages_own_agent_is_named_with_its_version(launch: Launch, tmp_path: Path) -> None:
    status = read_status(DiskFiles(), tmp_path, launch=launch)
    assert (status.tree, status.tree_folder, status.is_on_trial) == ("", "", False)
    assert agent_line(status) == "agent    its package's own, 0.1.0"


def test_tree_on_trial_and_then_kept_is_named_with_its_folder(launch: Launch, tmp_path: Path) -> None:
    trees = OwnTrees(launch, files=DiskFiles())
    trees.begin_trial(TREE, limit_s=60.0)
    status = read_status(DiskFiles(), tmp_path, launch=launch)
    assert status.is_on_trial
    assert agent_line(status) == f"agent    {tmp_path}/agent/versions/{TREE}, on trial until its fleet hears from it"

    trees.commit(TREE)
    status = read_status(DiskFiles(), tmp_path, launch=launch)
    assert (status.tree, status.is_on_trial) == (TREE, False)
    assert agent_line(status) == f"agent    {tmp_path}/agent/versions/{TREE}"


def test_after_a_refused_trial_it_is_the_packages_own_again(launch: Launch, tmp_path: Path) -> None:
    trees = OwnTrees(launch, files=DiskFiles())
    trees.begin_trial(TREE, limit_s=60.0)
    trees.refuse(TREE, reason="the fleet didn't hear from it")
    assert agent_line(read_status(DiskFiles(), tmp_path, launch=launch)) == "agent    its package's own, 0.1.0"


def test_agent_without_a_package_says_so(tmp_path: Path) -> None:
    write(tmp_path)
    assert agent_line(read_status(DiskFiles(), tmp_path, launch=NOT_LAUNCHED)) == "agent    not of a package"
