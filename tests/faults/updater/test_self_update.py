"""Power goes while the agent updates itself: is what starts next always a whole agent, and is the end the same?

The updater runs as on a board, on a disk that kills it; the guard is the one that the package installs.
"""

import itertools
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from shoal_wire.messages import ProbationLimits
from shoal_wire.update import UpdateState

from tests.faults.updater.board import KILLED, BoardFolder, Site
from tests.faults.updater.guarded_board import (
    IMPATIENT,
    PATIENT,
    GuardedBoard,
    copy_of,
    guard,
    publish_agent,
)
from tests.faults.updater.killing_files import Moment, WriteKill
from tests.faults.updater.publisher import Release
from tests.faults.updater.scripted_daemon import ScriptedDaemon


class World(NamedTuple):
    """What is wrong with the new agent, and how its update must end."""

    end: UpdateState
    passes: bool = True
    is_heard: bool = True
    probation: ProbationLimits = PATIENT


GOOD = World(UpdateState.COMMITTED)
MUTE = World(UpdateState.FELL_BACK, is_heard=False, probation=IMPATIENT)
UNFIT = World(UpdateState.REFUSED, passes=False)
WORLDS = {"good": GOOD, "mute": MUTE, "unfit": UNFIT}


class Case(NamedTuple):
    """A world on a board that nobody has started yet."""

    world: World
    release: Release
    board: BoardFolder

    def fresh(self, folder: Path) -> GuardedBoard:
        return GuardedBoard(copy_of(self.board, folder), self.release, is_heard=self.world.is_heard)

    def expect(self, guarded: GuardedBoard) -> None:
        guarded.expect(self.world.end, running=guarded.target if self.world is GOOD else "")
        is_marked = self.world.end is not UpdateState.COMMITTED
        assert guarded.slot().refused == (((1, 2),) if is_marked else ())


@pytest.fixture
def case(request: pytest.FixtureRequest, own_site: Site, own_board: BoardFolder) -> Case:
    world = WORLDS[request.param]
    release = publish_agent(own_site, 1, passes=world.passes)
    guarded = GuardedBoard(own_board, release)
    guarded.desire(own_site, release, probation=world.probation)
    return Case(world, release, own_board)


every_world = pytest.mark.parametrize("case", WORLDS, indirect=True)


@every_world
def test_an_agent_is_taken_or_taken_back(case: Case, tmp_path: Path) -> None:
    guarded = case.fresh(tmp_path / "board")
    guarded.settle()
    case.expect(guarded)


@every_world
def test_power_goes_at_every_third_durable_write(case: Case, tmp_path: Path) -> None:
    guarded = case.fresh(tmp_path / "board")
    moments = itertools.cycle(get_args(Moment))
    for number, moment in zip(range(2, 300, 3), moments, strict=False):
        if guarded.start(kill=WriteKill(moment, number)) != KILLED and guarded.board.journal().state in (
            case.world.end,
            UpdateState.FELL_BACK,
        ):
            break
    guarded.settle()
    if guarded.board.ended()[0] is UpdateState.FELL_BACK:  # three starts on trial were cut short
        guarded.expect(UpdateState.FELL_BACK, running="")
    else:
        case.expect(guarded)


@pytest.mark.long
@every_world
@pytest.mark.parametrize("moment", ["during", "after"])
def test_power_goes_once_at_any_durable_write(moment: Moment, case: Case, tmp_path: Path) -> None:
    for start in range(3):
        for number in itertools.count():
            guarded = case.fresh(tmp_path / "board")
            for _ in range(start):
                guarded.start()
            was_killed = guarded.start(kill=WriteKill(moment, number)) == KILLED
            guarded.settle()
            case.expect(guarded)
            if not was_killed:
                break


@pytest.mark.parametrize("case", ["good"], indirect=True)
def test_an_agent_that_dies_before_it_is_heard_is_taken_back_by_the_guard(case: Case, tmp_path: Path) -> None:
    guarded = case.fresh(tmp_path / "board")
    guarded.start()
    for _ in range(guard.MAX_STARTS):
        assert guarded.start(kill=WriteKill("before", 0)) == KILLED
    guarded.settle()
    assert guarded.started == ["", *[guarded.target] * guard.MAX_STARTS, "", ""]
    assert "started 3 times, and never kept" in guarded.board.journal().reason
    guarded.expect(UpdateState.FELL_BACK, running="")


@pytest.mark.parametrize("case", ["good"], indirect=True)
def test_a_generation_that_went_back_is_not_tried_again_and_neither_is_its_tree(
    case: Case, own_site: Site, tmp_path: Path
) -> None:
    guarded = case.fresh(tmp_path / "board")
    guarded.is_heard = False
    guarded.desire(own_site, case.release, probation=IMPATIENT)
    guarded.settle()
    guarded.expect(UpdateState.FELL_BACK, running="")
    guarded.desire(own_site, case.release, generation=3)
    guarded.settle()
    guarded.expect(UpdateState.REFUSED, running="")
    assert "was tried on this board and taken back" in guarded.board.journal().reason


@pytest.mark.parametrize("case", ["good"], indirect=True)
def test_from_a_second_agent_the_board_goes_back_to_the_first(case: Case, own_site: Site, tmp_path: Path) -> None:
    first = case.fresh(tmp_path / "board")
    first.settle()
    second = publish_agent(own_site, 2, agent="0.3.0")
    guarded = GuardedBoard(first.board, second, is_heard=False)
    guarded.desire(own_site, second, generation=3, probation=IMPATIENT)
    guarded.settle()
    guarded.expect(UpdateState.FELL_BACK, running=first.target)


def test_an_agent_that_no_package_installed_refuses_with_words(own_site: Site, own_board: BoardFolder) -> None:
    release = publish_agent(own_site, 1)
    GuardedBoard(own_board, release).desire(own_site, release)
    own_board.settle(ScriptedDaemon(own_board.state))
    assert own_board.ended() == (UpdateState.REFUSED, 2)
    assert "this agent wasn't installed by a package" in own_board.journal().reason
