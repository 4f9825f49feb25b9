"""Is said at which step the way to the fleet ends, and what helps?"""

from dataclasses import replace

import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.network import ADVICE, check_network, judge_reached
from shoal_agent.doctor.reaching import BROKER, Place, Reached, Step

PLACE = Place(BROKER, "fleet.example", 8883)


def test_place_that_answers_is_good() -> None:
    found = judge_reached(Reached(PLACE, told="it speaks MQTT"))
    assert (found.health, found.words, found.advice) == (Health.GOOD, "fleet.example:8883: it speaks MQTT", "")


@pytest.mark.parametrize("step", list(Step))
def test_step_that_failed_is_told_with_its_own_advice(step: Step) -> None:
    found = judge_reached(Reached(PLACE, step, "the reason"))
    assert (found.health, "the reason" in found.words, found.advice) == (Health.BAD, True, ADVICE[step])
    assert len(set(ADVICE.values())) == len(Step)


def test_each_place_has_a_line(board: Board) -> None:
    tried = replace(board, is_quick=False, reached=(Reached(PLACE), Reached(PLACE, Step.NAME, "x")))
    assert [line.health for line in check_network(tried)] == [Health.GOOD, Health.BAD]


def test_board_that_is_not_enrolled_has_no_fleet_to_reach(board: Board) -> None:
    assert [line.health for line in check_network(replace(board, is_quick=False))] == [Health.UNKNOWN]
    assert list(check_network(board)) == []
