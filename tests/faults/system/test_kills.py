"""Does an update end where it should, whichever process is killed at whichever row of the transition table?

The updater's own kills are in tests/faults/updater.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Literal

import pytest
from shoal_agent.updater.transitions import (
    BOUNDS,
    CHECKING,
    COMMITTED,
    COMMITTING,
    DONE,
    EXHAUSTED,
    FAILED,
    FALLING_BACK,
    FELL_BACK,
    FETCHING,
    PLANNING,
    PROBATION,
    REFUSED,
    REFUSING,
    SWITCHING,
    TRANSITIONS,
    VERIFYING,
)
from shoal_wire.update import UpdateState

from tests.faults.system.halting import Place, armed
from tests.faults.system.processes import kill, parent_of, wait_for
from tests.faults.system.releases import DAMAGED, SLOW
from tests.faults.system.site import LENIENT, STRICT
from tests.faults.system.stage import Stage
from tests.faults.system.stories import ATTEMPTS, STORIES, Row, Story

Moment = Literal["before", "after"]


def kill_daemon(stage: Stage, place: Place) -> None:
    stage.board.kill_daemon()
    place.open()
    stage.board.start()


def kill_front(stage: Stage, place: Place) -> None:
    kill(stage.board.front().pid)
    place.open()


def kill_worker(stage: Stage, place: Place) -> None:
    kill(*(worker.pid for worker in stage.board.workers()))
    place.open()


def kill_fleet(stage: Stage, place: Place) -> None:
    """It comes back once the updater has either ended or found that it is away."""
    stage.site.kill()
    place.open()
    wait_for(lambda: not stage.board.running("halting_updater"), what="the updater ended without the fleet")
    stage.site.start()


def kill_broker(stage: Stage, place: Place) -> None:
    brokers = stage.site.broker_pids()
    assert brokers, "there is a broker to kill"
    kill(*brokers)
    place.open()


VICTIMS: dict[str, Callable[[Stage, Place], None]] = {
    "daemon": kill_daemon,
    "front": kill_front,
    "worker": kill_worker,
    "fleet": kill_fleet,
    "broker": kill_broker,
}


def play(stage: Stage, row: Row, moment: Moment, strike: Callable[[Stage, Place], None]) -> None:
    """An update comes by at a row, and there `strike` happens; it must end as its story says."""
    site, board, story = stage.site, stage.board, STORIES[row]
    state, following = row[0], TRANSITIONS[row]
    kept, version = board.current_version(), story.version or site.next_good(board)
    with ExitStack() as until_end:
        until_end.enter_context(board.watched())
        with ExitStack() as while_listening:
            entry = while_listening.enter_context(armed(board.control, f"enter-{state.value}"))
            place = while_listening.enter_context(armed(board.control, f"{moment}-{state.value}-{following.value}"))
            rollout = site.roll_out(board, version, probation=STRICT if version == SLOW else LENIENT)
            while_listening.enter_context(board.listening())
            entry.wait()
            until_end.enter_context(story.prepare(stage))
            entry.open()
            place.wait()
            strike(stage, place)
            stage.wait_for_attempt(rollout, ATTEMPTS[story.end])
            if story.end is UpdateState.SUPERSEDED:
                stage.wait_for_attempt(rollout + 1, "succeeded")
        expect_end(stage, story, kept=kept, version=version)


def expect_end(stage: Stage, story: Story, *, kept: int | None, version: int) -> None:
    """Journal, slots, report and processes are those of the story's end."""
    board = stage.board
    if story.end is UpdateState.SUPERSEDED:
        assert board.update_state() is COMMITTED
        assert board.current_version() not in (kept, version)
        stage.expect_serving(board.current_version())
        return
    assert board.update_state() is story.end
    stage.expect_serving(version if story.end is COMMITTED else kept)


STRIKES: list[tuple[Moment, str]] = [
    ("before", "daemon"),
    ("before", "fleet"),
    ("before", "worker"),
    ("after", "daemon"),
    ("after", "broker"),
    ("after", "worker"),
    ("before", "front"),
    ("after", "front"),
]
"""At each row. In this order daemon and front are fresh where it counts: a daemon waits longer before each connection,
a front gives an engine up after some deaths."""

ROW_CASES = [(row, moment, victim) for row in STORIES for moment, victim in STRIKES]
EVERYDAY: list[tuple[Row, Moment, str]] = [
    ((CHECKING, DONE), "after", "daemon"),
    ((COMMITTING, DONE), "before", "fleet"),
    ((PROBATION, FAILED), "after", "daemon"),
    ((COMMITTING, DONE), "after", "broker"),
    ((PROBATION, FAILED), "after", "front"),
]


def name_case(value: object) -> str:
    if isinstance(value, tuple):
        state, outcome = value
        return f"{state.value}-{outcome.value}"
    return str(value)


def test_every_row_has_its_story() -> None:
    assert set(STORIES) == {row for row in TRANSITIONS if row[1] is not EXHAUSTED}
    assert {row[0] for row in TRANSITIONS if row[1] is EXHAUSTED} == set(EXHAUSTED_ENDS)
    assert set(EVERYDAY) <= set(ROW_CASES)


def test_answers_are_kept_once_although_the_fleet_is_killed_as_it_commits_them(stage: Stage) -> None:
    site, board = stage.site, stage.board
    with board.watched(), board.listening():
        before = site.answers().total()
        while site.answers().total() == before:
            pass  # no pause: the acknowledgement follows at once
        site.kill()
        site.start()
    stage.expect_serving(board.current_version())


@pytest.mark.parametrize(("row", "moment", "victim"), EVERYDAY, ids=name_case)
def test_update_ends_where_it_should(stage: Stage, row: Row, moment: Moment, victim: str) -> None:
    play(stage, row, moment, VICTIMS[victim])


@pytest.mark.long
@pytest.mark.parametrize(
    ("row", "moment", "victim"), [case for case in ROW_CASES if case not in EVERYDAY], ids=name_case
)
def test_update_ends_where_it_should_at_every_row(stage: Stage, row: Row, moment: Moment, victim: str) -> None:
    play(stage, row, moment, VICTIMS[victim])


MIDST: dict[str, UpdateState] = {
    "checking-load": CHECKING,
    "checking-run": CHECKING,
    "serving-load": SWITCHING,
    "serving-run": PROBATION,
}
"""Where a worker is at work, and the state in which it is."""


def strike_midst(stage: Stage, worker: int, victim: str) -> None:
    if victim == "worker":
        kill(worker)
    elif victim == "front":
        kill(parent_of(worker))
    elif victim == "serving front":
        kill(stage.board.front().pid)
    else:
        stage.board.kill_daemon()


MIDST_CASES = [(place, victim) for place in MIDST for victim in ("worker", "front", "daemon")]
MIDST_CASES += [(place, "serving front") for place in ("checking-load", "checking-run")]
EVERYDAY_MIDST = [
    ("checking-run", "worker"),
    ("checking-run", "front"),
    ("serving-load", "worker"),
    ("serving-run", "worker"),
    ("serving-run", "daemon"),
]


def play_midst(stage: Stage, name: str, victim: str) -> None:
    """A good update goes through although a process is killed while a worker loads or runs."""
    site, board = stage.site, stage.board
    version = site.next_good(board)
    with board.watched():
        with armed(board.control, f"enter-{MIDST[name].value}") as entry:
            rollout = site.roll_out(board, version)
            entry.wait()
            with armed(board.control, name) as place, board.listening():
                entry.open()
                strike_midst(stage, place.wait(), victim)
                place.open()
                if not board.is_running:
                    board.start()
                stage.wait_for_attempt(rollout, "succeeded")
        assert board.update_state() is COMMITTED
        stage.expect_serving(version)


@pytest.mark.parametrize(("place", "victim"), EVERYDAY_MIDST)
def test_good_update_survives_a_kill_in_the_midst_of_work(stage: Stage, place: str, victim: str) -> None:
    play_midst(stage, place, victim)


@pytest.mark.long
@pytest.mark.parametrize(("place", "victim"), [case for case in MIDST_CASES if case not in EVERYDAY_MIDST])
def test_good_update_survives_every_kill_in_the_midst_of_work(stage: Stage, place: str, victim: str) -> None:
    play_midst(stage, place, victim)


@pytest.mark.parametrize("victim", [pytest.param("fleet", marks=pytest.mark.long), "broker"])
def test_rollout_arrives_although_who_should_publish_it_was_killed(stage: Stage, victim: str) -> None:
    site, board = stage.site, stage.board
    version = site.next_good(board)
    with board.watched(), board.listening():
        rollout = site.roll_out(board, version)
        if victim == "fleet":
            site.kill()
            site.start()
        else:
            kill(*site.broker_pids())
        stage.wait_for_attempt(rollout, "succeeded")
    stage.expect_serving(version)


@pytest.mark.parametrize("victim", ["fleet", pytest.param("daemon", marks=pytest.mark.long)])
def test_fetching_goes_on_after_a_kill_in_the_midst_of_a_file(stage: Stage, victim: str) -> None:
    site, board = stage.site, stage.board
    version = site.next_good(board)
    with board.watched():
        with armed(board.control, "append") as place, board.listening():
            rollout = site.roll_out(board, version)
            place.wait()
            VICTIMS[victim](stage, place)
            stage.wait_for_attempt(rollout, "succeeded")
        stage.expect_serving(version)


def test_release_that_served_before_is_judged_by_what_it_does_now(stage: Stage) -> None:
    """It is still loaded, with what it counted then: without new input it can't pass."""
    site, board = stage.site, stage.board
    if board.slot().previous is None:
        stage.update(site.next_good(board))
    current, previous = board.slot().current, board.slot().previous
    assert current is not None and previous is not None
    limits = {**LENIENT, "answers": 1, "deadline_s": 2.0}
    rollout = site.roll_out(board, previous.reference.version, probation=limits)
    stage.wait_for_attempt(rollout, "failed")
    assert board.update_state() is FELL_BACK
    stage.expect_serving(current.reference.version)


EXHAUSTED_ENDS: dict[UpdateState, tuple[int | None, UpdateState]] = {
    PLANNING: (None, REFUSED),
    FETCHING: (None, REFUSED),
    VERIFYING: (None, REFUSED),
    CHECKING: (None, REFUSED),
    SWITCHING: (None, FELL_BACK),
    PROBATION: (None, FELL_BACK),
    COMMITTING: (None, COMMITTED),
    FALLING_BACK: (SLOW, FELL_BACK),
    REFUSING: (DAMAGED, REFUSED),
}
"""Release that comes by at a state, None for a good one, and the end after too many starts there."""


@pytest.mark.long
@pytest.mark.parametrize("state", list(EXHAUSTED_ENDS), ids=lambda state: state.value)
def test_daemon_that_is_killed_again_and_again_ends_the_update(stage: Stage, state: UpdateState) -> None:
    site, board = stage.site, stage.board
    wanted, end = EXHAUSTED_ENDS[state]
    kept, version = board.current_version(), wanted or site.next_good(board)
    with board.watched():
        with board.listening():
            with armed(board.control, f"enter-{state.value}") as entry:
                rollout = site.roll_out(board, version, probation=STRICT if version == SLOW else LENIENT)
                entry.wait()
                board.kill_daemon()
            for _ in range(BOUNDS[state].attempts - 1):
                with armed(board.control, f"after-{state.value}-{state.value}") as again:
                    board.start()
                    again.wait()
                    board.kill_daemon()
            board.start()
            stage.wait_for_attempt(rollout, ATTEMPTS[end])
        assert board.update_state() is end
        stage.expect_serving(version if end is COMMITTED else kept)
    stage.update(site.next_good(board))
