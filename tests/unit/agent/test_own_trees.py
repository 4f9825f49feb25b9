"""Do agent and guard agree on what runs, whoever of them writes, and wherever power goes in between?"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from shoal_agent.files import DiskFiles
from shoal_agent.own_trees import GuardRecord, Launch, OwnTrees, read_launch, slot_that_runs
from shoal_agent.slots import HeldRelease, Slot
from shoal_wire.messages import ReleaseReference

from tests.unit.guard.guard_program import load_guard

guard = load_guard()

OLD, NEW = "1-aaaaaaaaaaaa", "2-bbbbbbbbbbbb"


class Stopped(Exception):
    """Power went."""


class StoppingFiles(DiskFiles):
    """A disk that power goes before a given write of."""

    def __init__(self, at: int) -> None:
        self.left = at

    def write(self, path: Path, data: bytes) -> None:
        self._count()
        super().write(path, data)

    def move(self, source: Path, target: Path) -> None:
        self._count()
        super().move(source, target)

    def remove(self, path: Path) -> None:
        self._count()
        super().remove(path)

    def remove_folder(self, folder: Path) -> None:
        self._count()
        super().remove_folder(folder)

    def _count(self) -> None:
        if self.left == 0:
            raise Stopped
        self.left -= 1


def make_trees(folder: Path, *, running: str = OLD, files: DiskFiles | None = None) -> OwnTrees:
    return OwnTrees(Launch(folder, running, "0.1.0"), files=files or DiskFiles(), now=lambda: 1_800_000_000.0)


def next_start(folder: Path, *, now_s: float = 1.0) -> str:
    """What the guard starts, written down as it does. Every tree can run here."""
    trees = guard.Trees(folder, package=folder / "package")
    clock = guard.Clock(boot="boot", now_s=now_s, at=0.0)
    tree, record = guard.decide(trees.read(), current=trees.current(), clock=clock, unfit=lambda _: "")
    trees.write(record)
    trees.point(tree)
    return str(tree)


def put_on_trial(folder: Path) -> OwnTrees:
    """OLD is committed, NEW is on trial."""
    trees = make_trees(folder)
    trees.begin_trial(OLD, limit_s=900.0)
    assert trees.commit(OLD) is None
    trees.begin_trial(NEW, limit_s=900.0)
    return trees


def test_what_was_put_on_trial_starts_and_stays_once_it_was_committed(tmp_path: Path) -> None:
    trees = put_on_trial(tmp_path)
    assert (tmp_path / "trial").is_symlink()
    assert next_start(tmp_path) == NEW
    running = make_trees(tmp_path, running=NEW)
    assert running.is_on_trial() and not trees.is_on_trial()
    assert running.commit(NEW) is None
    assert not (tmp_path / "trial").is_symlink()
    assert [next_start(tmp_path) for _ in range(5)] == [NEW] * 5
    assert running.is_committed(NEW) and not running.is_on_trial()


def test_what_the_agent_refuses_never_starts_again(tmp_path: Path) -> None:
    trees = put_on_trial(tmp_path)
    assert next_start(tmp_path) == NEW
    trees.refuse(NEW, reason="the golden cases of notes fail")
    assert [next_start(tmp_path) for _ in range(5)] == [OLD] * 5
    assert trees.refusal_of(NEW) == "the golden cases of notes fail"
    assert trees.refusal_of(OLD) is None


def test_what_the_guard_refused_cannot_be_committed_and_the_reason_is_told(tmp_path: Path) -> None:
    trees = put_on_trial(tmp_path)
    assert [next_start(tmp_path) for _ in range(4)] == [NEW, NEW, NEW, OLD]
    reason = trees.refusal_of(NEW)
    assert reason is not None and "started 3 times" in reason
    assert trees.commit(NEW) == reason
    assert next_start(tmp_path) == OLD


def test_a_first_tree_goes_back_to_the_packages_own(tmp_path: Path) -> None:
    trees = make_trees(tmp_path, running="")
    trees.begin_trial(NEW, limit_s=900.0)
    assert next_start(tmp_path) == NEW
    trees.refuse(NEW, reason="bad")
    assert next_start(tmp_path) == ""
    assert not (tmp_path / "current").is_symlink()


def test_a_record_that_cannot_be_read_leads_to_the_packages_own(tmp_path: Path) -> None:
    trees = put_on_trial(tmp_path)
    (tmp_path / "guard.json").write_bytes(b'{"format":1,"comm')
    assert trees.record() == GuardRecord()
    assert next_start(tmp_path) == ""


ACTS: dict[str, tuple[Callable[[OwnTrees], object], set[str]]] = {
    "begin": (lambda trees: trees.begin_trial(NEW, limit_s=900.0), {OLD, NEW}),
    "commit": (lambda trees: trees.commit(NEW), {NEW}),
    "refuse": (lambda trees: trees.refuse(NEW, reason="bad"), {OLD, NEW}),
}


@pytest.mark.parametrize("name", ACTS)
def test_wherever_power_goes_the_next_start_is_of_a_tree_that_may_run_and_the_act_can_be_repeated(
    name: str, tmp_path: Path
) -> None:
    act, may_start = ACTS[name]
    for at in range(20):
        folder = tmp_path / f"{name}-{at}"
        trees = put_on_trial(folder)
        if name == "begin":
            trees.refuse("3-cccccccccccc", reason="another")
        try:
            act(make_trees(folder, running=NEW, files=StoppingFiles(at)))
            is_through = True
        except Stopped:
            is_through = False
        assert next_start(folder) in may_start
        act(make_trees(folder, running=NEW))
        assert next_start(folder) == {"begin": NEW, "commit": NEW, "refuse": OLD}[name]
        if is_through:
            assert at > 1
            return
    raise AssertionError("there is no end of writes")


def test_trees_that_nobody_needs_are_removed_and_never_one_that_runs_or_may_be_gone_back_to(tmp_path: Path) -> None:
    trees = put_on_trial(tmp_path)
    for name in (OLD, NEW, "0-kept", "0-gone", "0-running"):
        (tmp_path / "versions" / name / "bin").mkdir(parents=True)
    (tmp_path / "staging").mkdir()
    (tmp_path / ".guard.json.new").write_bytes(b"cut short")
    make_trees(tmp_path, running="0-running").collect(keep={"0-kept"})
    assert sorted(path.name for path in (tmp_path / "versions").iterdir()) == ["0-kept", "0-running", OLD, NEW]
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"versions", "guard.json", "guard.lock", "current", "trial"}
    assert trees.record().committed == OLD


def test_fields_of_a_newer_guard_are_passed_over(tmp_path: Path) -> None:
    trees = put_on_trial(tmp_path)
    record = json.loads((tmp_path / "guard.json").read_bytes())
    record |= {"of_the_future": 1, "trial": record["trial"] | {"of_the_future": 1}}
    (tmp_path / "guard.json").write_bytes(json.dumps(record).encode())
    assert trees.is_on_trial() is False
    assert trees.record().trial is not None
    assert next_start(tmp_path) == NEW


def test_the_launcher_says_what_runs() -> None:
    said = {"SHOAL_AGENT_TREES": "/var/lib/shoal-agent/agent", "SHOAL_AGENT_TREE": NEW, "SHOAL_AGENT_PACKAGE": "0.1.0"}
    assert read_launch(said) == Launch(Path("/var/lib/shoal-agent/agent"), NEW, "0.1.0")
    assert read_launch({"SHOAL_AGENT_TREE": NEW}) == Launch()


def test_a_slot_holds_nothing_while_another_agent_runs_than_it_says() -> None:
    reference = ReleaseReference("shoal-agent", 2, "b" * 64)
    held = HeldRelease(reference=reference, epoch=1, generation=1, variant="agent", grants=())
    slot = Slot(current=held, refused=((1, 1),))
    assert slot_that_runs(slot, running=NEW) == slot
    assert slot_that_runs(slot, running="") == Slot(refused=((1, 1),))
    assert slot_that_runs(Slot(), running="") == Slot()
