"""Does a board go through its life: installed, enrolled, serving, updated, cut off in an update, back again?

The short set, which boots once before the power is cut. Each test asks for a state, so each also runs alone.
"""

import random

import pytest

from hil.bench import Bench
from hil.measured import Measured
from hil.strategy import STATE, BoardStrategy, State

pytestmark = pytest.mark.lg_feature(["install", "power"])

LONGEST_UPDATE_S = 45.0
"""Power is cut within this time of an update's start."""


def test_boots(lab: BoardStrategy, measured: Measured) -> None:
    lab.transition(State.OFF)
    with measured.seconds("power on to a shell"):
        lab.transition(State.BOOTED)
    assert lab.board.fails("command -v shoal-agent")


def test_package_installs_and_brings_a_service_of_its_own_user(
    lab: BoardStrategy, bench: Bench, measured: Measured
) -> None:
    lab.transition(State.BOOTED)
    with measured.seconds("copying and installing the package"):
        lab.transition(State.INSTALLED)
    assert lab.board.run("shoal-agent --version").startswith("shoal-agent ")
    assert lab.board.run(f"stat -c '%U %a' {STATE}") == "shoal-agent 700"


def test_enrols_with_a_token_and_is_seen_by_its_fleet(lab: BoardStrategy, bench: Bench, measured: Measured) -> None:
    lab.transition(State.INSTALLED)
    with measured.seconds("enrolment to the first report"):
        lab.transition(State.ENROLLED)
    kind = bench.fleet.device(bench.name)["reported"]["kind"]
    assert kind["architecture"] == lab.board.run("uname -m")
    assert kind["is_emulated"] == lab.is_emulated


def test_answers_every_item_once_and_right(lab: BoardStrategy, bench: Bench, measured: Measured) -> None:
    lab.transition(State.ENROLLED)
    with measured.seconds("first release assigned to an answer"):
        lab.transition(State.SERVING)
    pictures = bench.place(lab.board, count=20)
    answers = bench.answered(pictures)
    assert {row["version"] for row in answers} == {1}
    assert lab.board.run(f"ls {STATE}/digits") == ""


def test_update_is_committed_on_live_input(lab: BoardStrategy, bench: Bench, measured: Measured) -> None:
    lab.transition(State.SERVING)
    with measured.seconds("update from fp32 to INT8"):
        lab.transition(State.UPDATING)
        assert bench.see_through(lab.board, lab.rollout) == "succeeded"
    answers = bench.answered(bench.place(lab.board, count=10))
    assert {row["version"] for row in answers} == {2}


def test_power_cut_during_an_update_leaves_a_board_that_serves(
    lab: BoardStrategy, bench: Bench, pytestconfig: pytest.Config
) -> None:
    lab.transition(State.SERVING)
    earlier = len(bench.placed)
    bench.place(lab.board, count=10)
    number = bench.fleet.start_rollout(bench.model, 1, device=bench.name)
    lab.cut_power(after_s=random.Random(pytestconfig.getoption("cut_seed")).uniform(0, LONGEST_UPDATE_S))
    board = lab.be_up()
    assert bench.see_through(board, number) in ("succeeded", "failed")
    bench.place(board, count=5)
    bench.answered(bench.placed[earlier:])
