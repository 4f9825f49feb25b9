"""What does a slot hold after an update switched, committed, fell back or refused, also when it did so twice?"""

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given
from shoal_agent.slots import Slot
from shoal_agent.updater.slot_changes import MAX_REFUSED, commit, drop_previous, fall_back, refuse, switch

from tests.unit.agent.updater.releases import held, journal, slot

UPDATE = journal(2, generation=7, p95_ms=61.0)
CHANGES: dict[str, Callable[[Slot], Slot]] = {
    "switch": lambda before: switch(before, held(2), may_go_back=True),
    "commit": lambda before: commit(before, UPDATE),
    "fall_back": lambda before: fall_back(before, UPDATE),
    "refuse": lambda before: refuse(before, UPDATE),
}
SLOTS = [slot(None), slot(1), slot(1, 2), slot(2, 1), slot(2), slot(1, None, (1, 6))]


@pytest.mark.parametrize("before", SLOTS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_change_made_twice_is_made_once(change: Callable[[Slot], Slot], before: Slot) -> None:
    assert change(change(before)) == change(before)


def test_switch_keeps_what_was_current_as_previous() -> None:
    assert switch(slot(1, 3), held(2), may_go_back=True) == slot(2, 1)
    assert switch(slot(None), held(2), may_go_back=True) == slot(2)


def test_commit_records_latency() -> None:
    committed = commit(slot(2, 1), UPDATE)
    assert committed.current is not None and committed.current.p95_ms == 61.0
    assert committed.previous == held(1)


def test_fall_back_restores_the_previous_release_and_marks_the_generation() -> None:
    assert fall_back(slot(2, 1), UPDATE) == slot(1, None, (1, 7))


def test_first_release_falls_back_to_an_empty_slot() -> None:
    assert fall_back(slot(2), UPDATE) == slot(None, None, (1, 7))


def test_fall_back_before_the_switch_was_written_changes_no_release() -> None:
    assert fall_back(slot(1, 3), UPDATE) == slot(1, 3, (1, 7))


@given(st.lists(st.integers(0, 1000), unique=True, max_size=3 * MAX_REFUSED))
def test_newest_refused_generations_are_kept(generations: list[int]) -> None:
    changed = slot(1)
    for generation in generations:
        changed = refuse(changed, journal(2, generation=generation))
    assert changed.refused == tuple((1, generation) for generation in generations[-MAX_REFUSED:])


def test_switch_from_a_revoked_release_keeps_nothing_to_go_back_to() -> None:
    assert switch(slot(1, 3), held(2), may_go_back=False) == slot(2, None)


def test_previous_that_was_revoked_is_dropped() -> None:
    assert drop_previous(slot(2, 1)) == slot(2, None)
