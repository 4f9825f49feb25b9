"""Does each promise of `Files` hold wherever power goes, and is each fsync of `DiskFiles` needed for one?"""

import ast
import contextlib
import inspect
import os
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from shoal_agent import files as files_module
from shoal_agent.files import DiskFiles, Files

from tests.faults.power.lossy_disk import LossyDisk, Tree, recording

OLD, NEW = b"what was there", b"what comes in its place"
MOST_STATES = 300
SOURCE = inspect.getsource(files_module)


@dataclass(frozen=True)
class Scenario:
    """One operation, what may be found before it returned, and what must be found after."""

    prepare: Callable[[Path], None]
    act: Callable[[Files, Path], None]
    during: Callable[[Tree], bool]
    after: Callable[[Tree], bool]


def _old(folder: Path) -> None:
    (folder / "a").write_bytes(OLD)


def _killed_in_its_first_append(files: Files, folder: Path) -> None:
    """The next process goes on after what it finds."""
    with _killed_at_sync(2):
        files.append(folder / "a", OLD, at=0)
    files.append(folder / "a", NEW, at=files.size(folder / "a"))


def _killed_in_its_first_removal(files: Files, folder: Path) -> None:
    with _killed_at_sync(1):
        files.remove(folder / "a")
    files.remove(folder / "a")


def _killed_in_its_first_removal_of_a_folder(files: Files, folder: Path) -> None:
    with _killed_at_sync(1):
        files.remove_folder(folder / "x")
    files.remove_folder(folder / "x")


@contextlib.contextmanager
def _killed_at_sync(nth: int) -> Iterator[None]:
    """What a process did that ended at its nth sync, whichever that is."""
    real, calls = os.fsync, 0

    def fsync(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= nth:
            raise InterruptedError
        real(descriptor)

    with mock.patch.object(os, "fsync", fsync), contextlib.suppress(InterruptedError):
        yield


def _old_and_part(folder: Path) -> None:
    _old(folder)
    (folder / "b").write_bytes(NEW)


def _linked(folder: Path) -> None:
    (folder / "current").symlink_to("one")


def _deep(folder: Path) -> None:
    (folder / "x" / "y").mkdir(parents=True)
    (folder / "x" / "y" / "f").write_bytes(OLD)


def _nothing(_: Path) -> None: ...


def _write_as_others_do(folder: Path) -> None:
    (folder / "x").mkdir()
    for path in (folder / "a", folder / "x" / "f"):
        path.write_bytes(NEW)


def _sync_after_others(files: Files, folder: Path) -> None:
    _write_as_others_do(folder)
    files.sync(folder)


def _sync_all_after_others(files: Files, folder: Path) -> None:
    _write_as_others_do(folder)
    files.sync_all(folder)


def _anything(_: Tree) -> bool:
    return True


def _keeps_the_old(tree: Tree) -> bool:
    content = tree.get("a")
    return isinstance(content, bytes) and content.startswith(OLD)


SCENARIOS = {
    "write in place of": Scenario(
        _old, lambda f, d: f.write(d / "a", NEW), lambda t: t.get("a") in (OLD, NEW), lambda t: t.get("a") == NEW
    ),
    "write in new folders": Scenario(
        _nothing,
        lambda f, d: f.write(d / "x" / "y" / "a", NEW),
        lambda t: t.get("x/y/a", NEW) == NEW,
        lambda t: t.get("x/y/a") == NEW,
    ),
    "append to a new file": Scenario(
        _nothing, lambda f, d: f.append(d / "a", NEW, at=0), _anything, lambda t: t.get("a") == NEW
    ),
    "append after a kill": Scenario(
        _nothing, _killed_in_its_first_append, _anything, lambda t: str(t.get("a")).endswith(str(NEW)[2:])
    ),
    "append": Scenario(
        _old,
        lambda f, d: f.append(d / "a", NEW, at=len(OLD)),
        _keeps_the_old,
        lambda t: t.get("a") == OLD + NEW,
    ),
    "move": Scenario(
        _old_and_part,
        lambda f, d: f.move(d / "b", d / "a"),
        lambda t: t.get("a") in (OLD, NEW),
        lambda t: t == {"a": NEW},
    ),
    "remove": Scenario(_old, lambda f, d: f.remove(d / "a"), lambda t: t.get("a", OLD) == OLD, lambda t: t == {}),
    "remove after a kill": Scenario(
        _old, _killed_in_its_first_removal, lambda t: t.get("a", OLD) == OLD, lambda t: t == {}
    ),
    "remove folder after a kill": Scenario(
        _deep, _killed_in_its_first_removal_of_a_folder, _anything, lambda t: t == {}
    ),
    "link": Scenario(
        _linked,
        lambda f, d: f.link(d / "current", "two"),
        lambda t: t.get("current") in ("one", "two"),
        lambda t: t == {"current": "two"},
    ),
    "make folder": Scenario(_nothing, lambda f, d: f.make_folder(d / "x" / "y"), _anything, lambda t: "x/y" in t),
    "remove folder": Scenario(_deep, lambda f, d: f.remove_folder(d / "x"), _anything, lambda t: t == {}),
    "sync": Scenario(_old, _sync_after_others, _anything, lambda t: t.get("a") == NEW and "x" in t),
    "sync all": Scenario(_old, _sync_all_after_others, _anything, lambda t: t.get("a") == NEW and t.get("x/f") == NEW),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_promise_holds_wherever_power_goes(name: str, tmp_path: Path) -> None:
    assert list(broken(SCENARIOS[name], DiskFiles(), tmp_path)) == []


def _is_sync(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith(("_sync(", "os.fsync("))


def find_syncs() -> list[int]:
    """Where in the source, by the order of `ast.walk`, something is synced."""
    return [number for number, node in enumerate(ast.walk(ast.parse(SOURCE))) if _is_sync(node)]


@pytest.mark.parametrize("site", find_syncs())
def test_without_any_one_sync_a_promise_is_broken(site: int, tmp_path: Path) -> None:
    mutant = build_without(site)
    for number, scenario in enumerate(SCENARIOS.values()):
        (tmp_path / str(number)).mkdir()
        if any(broken(scenario, mutant, tmp_path / str(number))):
            return
    pytest.fail(
        f"no promise needs the sync at node {site} of shoal_agent/files.py: it is idle, or a scenario is missing"
    )


def build_without(site: int) -> Files:
    """The same `DiskFiles` with one call that syncs left out."""
    tree = ast.parse(SOURCE)
    node = list(ast.walk(tree))[site]
    assert isinstance(node, ast.Expr)
    node.value = ast.Constant(None)
    module = types.ModuleType("files_without_a_sync")
    exec(compile(ast.fix_missing_locations(tree), "files_without_a_sync", "exec"), module.__dict__)
    mutant: Files = module.DiskFiles()
    return mutant


def broken(scenario: Scenario, files: Files, folder: Path) -> Iterator[str]:
    """What is found against the promise, at each cut."""
    scenario.prepare(folder)
    disk = LossyDisk(folder)
    found: list[str] = []

    def cut(is_kept: Callable[[Tree], bool] = scenario.during) -> None:
        found.extend(str(tree) for tree in disk.states(most=MOST_STATES, seed=1) if not is_kept(tree))

    try:
        with recording(disk, cut):
            scenario.act(files, folder)
        cut(scenario.after)
    finally:
        disk.close()
    return iter(found)
