"""Is what the guard starts whole and fit for the board, is each start counted before it, and does power do no harm?"""

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.unit.guard.guard_program import load_guard

guard = load_guard()

PYTHON = "{}.{}".format(*sys.version_info[:2])
OLD, NEW = "1-aaaaaaaaaaaa", "2-bbbbbbbbbbbb"


class Stopped(Exception):
    """Power went."""


class StoppingTrees(guard.Trees):  # type: ignore[misc, name-defined]
    """A folder that power goes before a given write of."""

    def __init__(self, folder: Path, *, package: Path, at: int) -> None:
        super().__init__(folder, package=package)
        self.left = at

    def write(self, record: Any) -> None:
        self._count()
        super().write(record)

    def point(self, tree: str) -> None:
        self._count()
        super().point(tree)

    def _count(self) -> None:
        if self.left == 0:
            raise Stopped
        self.left -= 1


def add_tree(trees: Any, name: str, *, version: str = "0.2.0", **changes: str) -> None:
    folder = trees.path(name)
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python3").symlink_to(sys.executable)
    made = {"version": version, "python": PYTHON, "machine": os.uname().machine} | changes
    (folder / "tree.json").write_text(json.dumps(made))


@pytest.fixture
def trees(tmp_path: Path) -> Any:
    """OLD is committed, NEW is on trial; the package's own is 0.1.0."""
    package = tmp_path / "package"
    (package / "site-packages" / "shoal_agent-0.1.0.dist-info").mkdir(parents=True)
    (package / "bin").mkdir()
    (package / "bin" / "python3").symlink_to(sys.executable)
    trees = guard.Trees(tmp_path / "trees", package=package)
    add_tree(trees, OLD)
    add_tree(trees, NEW, version="0.3.0")
    trial = guard.Trial(tree=NEW, limit_s=900.0)
    trees.write(guard.Record(committed=OLD, trial=trial))
    (trees.folder / "trial").symlink_to(f"versions/{NEW}")
    (trees.folder / "current").symlink_to(f"versions/{NEW}")
    return trees


def test_a_start_is_counted_with_the_process_that_it_is_of(trees: Any) -> None:
    assert guard.choose(trees, is_start=True) == NEW
    trial = trees.read().trial
    assert (trial.starts, trial.pid, trial.pid_began) == (1, os.getpid(), guard.began(os.getpid()))
    assert trial.pid_began > 0


def test_after_its_starts_the_link_leads_back_and_the_mark_is_gone(trees: Any) -> None:
    assert [guard.choose(trees, is_start=True) for _ in range(5)] == [NEW] * 3 + [OLD] * 2
    assert trees.current() == OLD
    assert not (trees.folder / "trial").is_symlink()


def test_wherever_power_goes_the_next_start_is_of_a_tree_that_may_run(trees: Any) -> None:
    for _ in range(3):
        guard.choose(trees, is_start=True)
    for at in range(3):
        with pytest.raises(Stopped) if at < 2 else nullcontext():
            guard.choose(StoppingTrees(trees.folder, package=trees.package, at=at), is_start=True)
    assert guard.choose(trees, is_start=True) == OLD
    assert (trees.current(), trees.read().trial) == (OLD, None)


def test_other_commands_run_what_was_committed_and_change_nothing(trees: Any) -> None:
    before = (trees.folder / "guard.json").read_bytes()
    assert guard.choose(trees, is_start=False) == OLD
    assert (trees.folder / "guard.json").read_bytes() == before
    assert trees.current() == NEW


def test_without_a_folder_the_packages_own_runs_and_none_is_made(trees: Any, tmp_path: Path) -> None:
    none = guard.Trees(tmp_path / "none", package=trees.package)
    assert guard.choose(none, is_start=True) == ""
    assert not none.folder.exists()


def test_what_cannot_be_counted_is_not_tried(trees: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (trees.folder / ".guard.json.guard").mkdir()
    assert guard.choose(trees, is_start=True) == ""
    assert "the package's own agent runs" in capsys.readouterr().err


def test_a_damaged_record_leads_to_the_packages_own_and_no_file_is_guessed_at(trees: Any) -> None:
    (trees.folder / "guard.json").write_bytes(b"\0" * 100)
    assert guard.choose(trees, is_start=True) == ""
    assert trees.current() == ""


UNFIT = {
    "other-python": ({"python": "3.2"}, f"made for python 3.2, this board has {PYTHON}"),
    "other-machine": ({"machine": "mips"}, "made for machine mips, this board has "),
    "older-than-the-package": ({"version": "0.0.9"}, "version 0.0.9 is older than the package's own, 0.1.0"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_tree_that_system_or_package_have_left_behind_is_not_started(name: str, trees: Any) -> None:
    changes, reason = UNFIT[name]
    add_tree(trees, "3-cccccccccccc", **changes)
    assert trees.unfit("3-cccccccccccc").startswith(reason)
    trees.write(guard.Record(committed="3-cccccccccccc"))
    assert guard.choose(trees, is_start=True) == ""
    assert trees.read().committed == "3-cccccccccccc", "the package may be taken back"


def test_a_tree_that_is_not_whole_is_not_started(trees: Any) -> None:
    assert trees.unfit(NEW) == ""
    (trees.path(NEW) / "bin" / "python3").unlink()
    assert trees.unfit(NEW) == "its interpreter isn't there"
    (trees.path(NEW) / "tree.json").write_text("{}")
    assert trees.unfit(NEW).startswith("can't be read: ")
    assert guard.choose(trees, is_start=True) == OLD


def test_an_equal_version_runs_before_the_packages_own(trees: Any) -> None:
    add_tree(trees, "3-cccccccccccc", version="0.1")
    assert trees.unfit("3-cccccccccccc") == ""
