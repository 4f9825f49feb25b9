"""Does a board whose clock, disk, memory or worker fails go on as far as it can, and say what is wrong?"""

import time

import pytest

from hil.bench import Bench
from hil.host_fleet import wait_for
from hil.strategy import CONNECT_S, STATE, BoardStrategy, State

pytestmark = [pytest.mark.long, pytest.mark.lg_feature("install")]

LONG_AGO = "2024-06-01T00:00:00"
"""Before anything of this fleet was signed: what a board without a battery for its clock shows."""
LEFT_BYTES = 256 << 10
"""Of a disk that is as good as full."""


@pytest.mark.lg_feature(["clock", "power"])
def test_board_whose_clock_is_years_behind_connects_and_serves(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.SERVING)
    lab.transition(State.OFF)
    lab.power.prepare(clock=LONG_AGO)
    board = lab.be_up()
    assert float(board.run("date +%s")) < time.time() - 86400
    lab.wait_until_connected()
    assert bench.is_serving(board)
    lab.transition(State.OFF)
    lab.power.prepare()


def test_update_on_a_full_disk_is_given_up_and_the_board_serves_on(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.SERVING)
    board = lab.board
    free = int(board.run(f"df --output=avail -B1 {STATE} | tail -1"))
    board.run(f"fallocate -l {free - LEFT_BYTES} /var/filler")
    try:
        (slot,) = bench.fleet.device(bench.name)["reported"]["slots"]
        rollout = bench.fleet.start_rollout(bench.model, 3 - slot["current"]["version"], device=bench.name)
        bench.answered(bench.place(board, count=10))
    finally:
        board.run("rm /var/filler")
    assert bench.see_through(board, rollout) in ("succeeded", "failed")
    assert bench.is_serving(board)


def test_worker_that_is_killed_costs_no_answer_and_is_counted(lab: BoardStrategy, bench: Bench) -> None:
    lab.transition(State.SERVING)
    deaths = bench.fleet.device(bench.name)["worker_deaths"]
    pictures = bench.place(lab.board, count=20)
    lab.board.run("pkill --signal KILL --full shoal_worker")
    bench.answered(pictures)
    counted = lambda: bench.fleet.device(bench.name)["worker_deaths"] > deaths or None  # noqa: E731
    wait_for("the death is counted", counted, timeout_s=CONNECT_S)


@pytest.mark.parametrize("memory", ["512M", "256M"])
@pytest.mark.lg_feature(["memory", "power"])
def test_board_with_little_memory_serves(lab: BoardStrategy, bench: Bench, memory: str) -> None:
    lab.transition(State.SERVING)
    lab.transition(State.OFF)
    lab.power.prepare(memory=memory)
    try:
        board = lab.be_up()
        lab.wait_until_connected()
        bench.answered(bench.place(board, count=10))
        assert "Out of memory" not in board.run("dmesg")
    finally:
        lab.transition(State.OFF)
        lab.power.prepare(memory="2G")
