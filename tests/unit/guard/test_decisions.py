"""Which agent does the guard start, whatever its record, its clock and the link say?"""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.guard.guard_program import load_guard

guard = load_guard()

LIMIT_S = 900.0
OLD, NEW, STRANGE = "1-aaaaaaaaaaaa", "2-bbbbbbbbbbbb", "3-cccccccccccc"
TRIAL = guard.Trial(tree=NEW, limit_s=LIMIT_S)
ON_TRIAL = guard.Record(committed=OLD, trial=TRIAL)

names = st.sampled_from(["", OLD, NEW, STRANGE])
boots = st.sampled_from(["", "boot-1", "boot-2"])
seconds = st.floats(0, 1e7)
trials = st.none() | st.builds(
    guard.Trial,
    tree=st.sampled_from([NEW, STRANGE]),
    limit_s=seconds,
    starts=st.integers(0, 9),
    boot=boots,
    began_s=seconds,
)
records = st.builds(guard.Record, committed=names, trial=trials)
clocks = st.builds(guard.Clock, boot=st.sampled_from(["boot-1", "boot-2"]), now_s=seconds, at=seconds)
unfit_trees = st.sets(st.sampled_from([OLD, NEW, STRANGE]))


def clock(now_s: float = 100.0, *, boot: str = "boot-1") -> Any:
    return guard.Clock(boot=boot, now_s=now_s, at=1_800_000_000.0)


def decide(record: Any, *, current: str = NEW, at: Any = None, unfit: frozenset[str] = frozenset()) -> tuple[str, Any]:
    found: tuple[str, Any] = guard.decide(
        record, current=current, clock=at or clock(), unfit=lambda tree: "unfit" if tree in unfit else ""
    )
    return found


def refused(record: Any) -> list[str]:
    return [one["tree"] for one in record.refused]


@given(records, names, clocks, unfit_trees)
def test_only_what_was_committed_or_is_on_trial_within_its_bounds_is_started(
    record: Any, current: str, at: Any, unfit: set[str]
) -> None:
    tree, after = decide(record, current=current, at=at, unfit=frozenset(unfit))
    assert tree not in unfit
    if tree == "":
        assert after.committed in ({""} | unfit)
    elif record.trial is not None and tree == record.trial.tree == current:
        assert 1 <= after.trial.starts <= guard.MAX_STARTS
        assert after.trial.boot == at.boot
        assert at.now_s - after.trial.began_s <= after.trial.limit_s
    else:
        assert tree == record.committed


@given(records, names, clocks, unfit_trees)
def test_what_was_committed_stays_so_unless_it_was_refused(record: Any, current: str, at: Any, unfit: set[str]) -> None:
    tree, after = decide(record, current=current, at=at, unfit=frozenset(unfit))
    assert after.committed == ("" if record.committed in refused(after) else record.committed)
    assert tree not in refused(after) or not tree


@given(records, st.lists(clocks, min_size=guard.MAX_STARTS + 1, max_size=9))
def test_a_trial_never_has_more_starts_than_it_may_whatever_the_clocks_say(record: Any, times: list[Any]) -> None:
    record = replace(record, committed="" if record.committed == NEW else record.committed)
    if record.trial is not None:
        record = replace(record, trial=replace(record.trial, starts=0))
    started = 0
    for at in times:
        tree, record = decide(record, current=NEW, at=at)
        started += record.trial is not None and tree == NEW
    assert started <= guard.MAX_STARTS
    assert record.trial is None or record.trial.tree != NEW


@given(records, names, clocks, unfit_trees)
def test_a_record_is_read_back_as_it_was_written(record: Any, current: str, at: Any, unfit: set[str]) -> None:
    _, after = decide(record, current=current, at=at, unfit=frozenset(unfit))
    assert guard.parse_record(json.dumps({"format": 1, **asdict(after)}).encode()) == after


def test_each_start_on_trial_is_counted_and_the_one_after_the_third_goes_back() -> None:
    record, started = ON_TRIAL, []
    for number in range(4):
        tree, record = decide(record, at=clock(100.0 + number))
        started.append(tree)
    assert started == [NEW, NEW, NEW, OLD]
    assert refused(record) == [NEW]
    assert record.refused[0]["reason"] == "started 3 times, and never kept: the fleet didn't hear from it"
    assert decide(record, current=OLD) == (OLD, record)


def test_time_is_counted_in_one_boot_from_its_first_start() -> None:
    _, record = decide(ON_TRIAL, at=clock(100.0))
    assert decide(record, at=clock(100.0 + LIMIT_S))[0] == NEW
    tree, after = decide(record, at=clock(101.0 + LIMIT_S))
    assert (tree, refused(after)) == (OLD, [NEW])
    assert "ran for 901 s of at most 900 s" in after.refused[0]["reason"]


def test_another_boot_has_another_clock() -> None:
    _, record = decide(ON_TRIAL, at=clock(10_000.0))
    tree, record = decide(record, at=clock(5.0, boot="boot-2"))
    assert (tree, record.trial.starts, record.trial.began_s) == (NEW, 2, 5.0)


def test_without_a_committed_tree_it_goes_back_to_the_packages_own() -> None:
    record = guard.Record(trial=replace(TRIAL, starts=3))
    assert decide(record)[0] == ""


def test_a_trial_whose_link_was_not_flipped_has_not_begun() -> None:
    assert decide(ON_TRIAL, current=OLD) == (OLD, ON_TRIAL)
    assert decide(ON_TRIAL, current="") == (OLD, ON_TRIAL)


def test_a_link_to_what_is_neither_committed_nor_on_trial_leads_nowhere() -> None:
    assert decide(guard.Record(committed=OLD), current=STRANGE)[0] == OLD
    assert decide(guard.Record(), current=STRANGE)[0] == ""


def test_a_tree_on_trial_that_cannot_run_here_is_refused_and_a_committed_one_only_left_out() -> None:
    tree, after = decide(ON_TRIAL, unfit=frozenset({NEW}))
    assert (tree, refused(after)) == (OLD, [NEW])
    tree, after = decide(guard.Record(committed=OLD), current=OLD, unfit=frozenset({OLD}))
    assert (tree, after) == ("", guard.Record(committed=OLD))


@pytest.mark.parametrize(
    ("raw", "error"),
    [(b"", ValueError), (b"{", ValueError), (b'{"format": 2}', ValueError), (b'{"format": 1, "trial": {}}', KeyError)],
    ids=["empty", "cut", "of-the-future", "without-its-tree"],
)
def test_another_record_is_not_guessed_at(raw: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        guard.parse_record(raw)


def test_versions_are_ordered_by_their_numbers_and_what_is_none_comes_first() -> None:
    texts = ["", "0.1", "0.1.1", "0.2.0", "0.10.0", "1"]
    shuffled = ["0.10.0", "0.1.1", "", "1", "0.1", "0.2.0"]
    assert sorted(shuffled, key=guard.version_order) == texts
    assert guard.version_order("0.1.0.dev3") == guard.version_order("") == ()
    assert guard.version_order("0.1") == guard.version_order("0.1.0")
