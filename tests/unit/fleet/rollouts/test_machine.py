"""Where does a report put a device?"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.rollouts import machine
from shoal_fleet.rollouts.machine import (
    LAST_GENERATION,
    MOVES,
    OPEN,
    Attempt,
    DeviceState,
    RolloutState,
    Verdict,
    judge,
    kept_without,
    may_move,
    next_order,
    sum_up,
)
from shoal_wire.messages import ReleaseReference, Reported
from shoal_wire.update import TERMINAL, UpdateState

from tests.unit.fleet.boards import Board, progress, reference, slot

OLD, NEW, OTHER = reference("notes", 1), reference("notes", 2), reference("birds", 1)
ORDER = (1, 5)
ATTEMPT = Attempt(NEW, ORDER)
BOARD = Board("yard")

UNDER_WAY = sorted(set(UpdateState) - TERMINAL, key=lambda state: state.value)


def state_of(reported: Reported) -> DeviceState:
    return judge(ATTEMPT, reported).state


def test_a_device_that_has_not_seen_the_document_is_still_assigned() -> None:
    assert state_of(BOARD.reported(order=(1, 4), slots=[slot(OLD)])) is DeviceState.ASSIGNED
    assert state_of(BOARD.reported()) is DeviceState.ASSIGNED


@pytest.mark.parametrize("state", UNDER_WAY)
def test_a_device_on_its_way_is_updating(state: UpdateState) -> None:
    report = BOARD.reported(order=ORDER, slots=[slot(OLD)], update=progress(NEW, state, order=ORDER))
    assert state_of(report) is DeviceState.UPDATING


def test_a_device_on_probation_has_not_succeeded_though_it_serves_the_release() -> None:
    update = progress(NEW, UpdateState.PROBATION, order=ORDER)
    assert state_of(BOARD.reported(order=ORDER, slots=[slot(NEW, previous=OLD)], update=update)) is DeviceState.UPDATING


def test_a_device_that_committed_the_release_has_succeeded() -> None:
    update = progress(NEW, UpdateState.COMMITTED, order=ORDER)
    assert judge(ATTEMPT, BOARD.reported(order=ORDER, slots=[slot(NEW)], update=update)) == Verdict(
        DeviceState.SUCCEEDED
    )


@pytest.mark.parametrize("current", [OLD, reference("notes", 3)])
def test_committed_alone_is_not_enough_without_the_release_in_the_slot(current: ReleaseReference) -> None:
    update = progress(NEW, UpdateState.COMMITTED, order=ORDER)
    assert state_of(BOARD.reported(order=ORDER, slots=[slot(current)], update=update)) is DeviceState.UPDATING


def test_what_was_committed_for_an_earlier_document_does_not_count() -> None:
    update = progress(NEW, UpdateState.COMMITTED, order=(1, 4))
    assert state_of(BOARD.reported(order=(1, 4), slots=[slot(NEW)], update=update)) is DeviceState.ASSIGNED


@pytest.mark.parametrize("state", [UpdateState.FELL_BACK, UpdateState.REFUSED])
def test_a_device_that_went_back_or_refused_has_failed_with_its_reason(state: UpdateState) -> None:
    update = progress(NEW, state, order=ORDER, reason="p95 300 ms, limit 120 ms")
    report = BOARD.reported(order=ORDER, slots=[slot(OLD, refused=[5])], update=update)
    assert judge(ATTEMPT, report) == Verdict(DeviceState.FAILED, "p95 300 ms, limit 120 ms")


def test_an_earlier_refusal_of_the_same_release_does_not_count() -> None:
    update = progress(NEW, UpdateState.REFUSED, order=(1, 3), reason="no memory")
    assert state_of(BOARD.reported(order=(1, 4), slots=[slot(OLD, refused=[3])], update=update)) is DeviceState.ASSIGNED


def test_a_failure_whose_report_was_overtaken_is_seen_in_the_refused_generations() -> None:
    update = progress(OTHER, UpdateState.FETCHING, order=(1, 6))
    report = BOARD.reported(order=(1, 6), slots=[slot(OLD, refused=[2, 5])], update=update)
    assert state_of(report) is DeviceState.FAILED


def test_an_update_to_another_release_of_the_device_says_nothing_about_this_one() -> None:
    update = progress(OTHER, UpdateState.REFUSED, order=(1, 6), reason="no memory")
    assert state_of(BOARD.reported(order=(1, 6), slots=[slot(OLD)], update=update)) is DeviceState.ASSIGNED


def test_success_whose_report_was_overtaken_by_another_update_is_seen_in_the_slot() -> None:
    update = progress(OTHER, UpdateState.FETCHING, order=(1, 6))
    assert state_of(BOARD.reported(order=(1, 6), slots=[slot(NEW)], update=update)) is DeviceState.SUCCEEDED


def test_a_device_that_ran_the_release_already_succeeds_once_it_has_seen_the_document() -> None:
    assert state_of(BOARD.reported(order=(1, 4), slots=[slot(NEW)])) is DeviceState.ASSIGNED
    assert state_of(BOARD.reported(order=ORDER, slots=[slot(NEW)])) is DeviceState.SUCCEEDED


def test_a_release_still_on_probation_for_an_earlier_document_is_waited_for() -> None:
    update = progress(NEW, UpdateState.PROBATION, order=(1, 4))
    assert state_of(BOARD.reported(order=ORDER, slots=[slot(NEW)], update=update)) is DeviceState.ASSIGNED


def test_a_later_document_that_repeats_the_release_belongs_to_the_same_attempt() -> None:
    update = progress(NEW, UpdateState.COMMITTED, order=(1, 7))
    assert state_of(BOARD.reported(order=(1, 7), slots=[slot(NEW)], update=update)) is DeviceState.SUCCEEDED


def test_a_device_whose_journal_is_unreadable_has_failed_and_goes_back_to_what_it_had() -> None:
    update = progress(NEW, UpdateState.UNKNOWN, order=ORDER)
    assert state_of(BOARD.reported(order=ORDER, slots=[slot(OLD)], update=update)) is DeviceState.FAILED
    unproven = BOARD.reported(order=ORDER, slots=[slot(NEW, previous=OLD)], update=update)
    assert kept_without(unproven, target=NEW) == OLD


def test_what_has_ended_is_never_moved() -> None:
    assert {DeviceState.WAITING, DeviceState.ASSIGNED, DeviceState.UPDATING} == OPEN
    assert {DeviceState.ASSIGNED, DeviceState.UPDATING} == machine.UNDER_WAY
    for old, new in itertools.product(set(DeviceState) - OPEN - {DeviceState.SUCCEEDED}, DeviceState):
        assert not may_move(old, new)
    assert MOVES[DeviceState.SUCCEEDED] == {DeviceState.FAILED, DeviceState.ROLLED_BACK}
    assert not may_move(DeviceState.UPDATING, DeviceState.ASSIGNED)
    assert {new for new in DeviceState if may_move(DeviceState.WAITING, new)} == {
        DeviceState.ASSIGNED,
        DeviceState.ABORTED,
    }
    assert set(MOVES) == set(DeviceState)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        (["succeeded", "assigned", "failed"], RolloutState.RUNNING),
        (["succeeded", "updating"], RolloutState.RUNNING),
        (["waiting", "aborted"], RolloutState.WAITING),
        (["succeeded", "succeeded"], RolloutState.SUCCEEDED),
        (["succeeded", "failed", "aborted"], RolloutState.FAILED),
        (["succeeded", "aborted"], RolloutState.ABORTED),
    ],
)
def test_a_rollout_ends_with_its_last_device(states: list[str], expected: RolloutState) -> None:
    assert sum_up([DeviceState(state) for state in states]) is expected


def test_an_aborted_device_keeps_what_it_runs() -> None:
    assert kept_without(BOARD.reported(slots=[slot(OLD)]), target=NEW) == OLD
    assert kept_without(BOARD.reported(slots=[slot(OTHER)]), target=NEW) is None
    assert kept_without(BOARD.reported(), target=NEW) is None


@pytest.mark.parametrize("state", UNDER_WAY)
def test_a_device_aborted_before_the_commit_goes_back_to_the_one_before(state: UpdateState) -> None:
    report = BOARD.reported(slots=[slot(NEW, previous=OLD)], update=progress(NEW, state, order=ORDER))
    assert kept_without(report, target=NEW) == OLD


def test_a_device_aborted_after_the_commit_keeps_the_release() -> None:
    report = BOARD.reported(slots=[slot(NEW, previous=OLD)], update=progress(NEW, UpdateState.COMMITTED, order=ORDER))
    assert kept_without(report, target=NEW) == NEW


orders = st.tuples(st.integers(0, 2**63 - 2), st.integers(0, 2**63 - 1))


@given(issued=st.none() | orders, reported=st.none() | orders)
def test_the_next_order_is_above_all_that_was_issued_or_seen(
    issued: tuple[int, int] | None, reported: tuple[int, int] | None
) -> None:
    following = next_order(issued=issued, reported=reported)
    assert following > max(issued or (0, 0), reported or (0, 0))
    assert following[1] <= LAST_GENERATION


def test_a_fleet_without_a_past_counts_from_one() -> None:
    assert next_order(issued=None, reported=None) == (1, 1)
    assert next_order(issued=(1, 1), reported=(1, 0)) == (1, 2)


def test_a_fleet_restored_from_an_old_copy_goes_on_above_what_the_device_has_seen() -> None:
    assert next_order(issued=(1, 3), reported=(1, 9)) == (1, 10)
