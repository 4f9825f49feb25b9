"""Does a board go on without its fleet, and does nothing get lost meanwhile?"""

import pytest

from hil.bench import Bench
from hil.board import Board
from hil.host_fleet import wait_for
from hil.strategy import CONNECT_S, STATE, BoardStrategy, State

pytestmark = [pytest.mark.long, pytest.mark.lg_feature("install")]


@pytest.mark.lg_feature("network")
def test_items_are_answered_without_a_network_and_told_afterwards(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.DEGRADED)
    told = bench.last_answer()
    pictures = bench.place(lab.board, count=30)
    wait_until_worked_off(lab.board)
    assert bench.last_answer() == told
    lab.transition(State.SERVING)
    bench.answered(pictures)


@pytest.mark.lg_feature(["network", "power"])
def test_power_cut_without_a_network_loses_no_answer(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.DEGRADED)
    pictures = bench.place(lab.board, count=30)
    wait_until_worked_off(lab.board)
    lab.cut_power()
    lab.be_up()
    lab.transition(State.SERVING)
    bench.answered(pictures)


def test_broker_that_dies_is_connected_to_again(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.SERVING)
    bench.fleet.kill_broker()
    bench.answered(bench.place(lab.board, count=10), timeout_s=CONNECT_S)


def test_fleet_that_was_away_gets_everything(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.SERVING)
    bench.fleet.stop()
    pictures = bench.place(lab.board, count=10)
    wait_until_worked_off(lab.board)
    bench.fleet.start()
    bench.answered(pictures, timeout_s=CONNECT_S)


def wait_until_worked_off(board: Board) -> None:
    """Until no item is left in the folder: each answer is in the outbox then."""
    wait_for("the folder is empty", lambda: board.run(f"ls {STATE}/digits") == "" or None, timeout_s=CONNECT_S)
