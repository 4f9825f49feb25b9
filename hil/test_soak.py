"""Does a real board serve for a day without a lost answer, a growing process or a restart?"""

import time

import pytest

from hil.bench import Bench
from hil.measured import Measured
from hil.strategy import BoardStrategy, State

pytestmark = [pytest.mark.long, pytest.mark.lg_feature(["install", "real"])]

ROUND_S = 60.0
ITEMS = 2
"""In each round."""
MOST_GROWTH = 1.2
"""The daemon's memory at the end, as a multiple of that after the first hour or tenth."""
_PSS = (
    "awk '/^Pss:/ { kb += $2 } END { print kb }' "
    "/proc/$(systemctl show --property MainPID --value shoal-agent)/smaps_rollup"
)


def test_board_serves_for_a_day(
    lab: BoardStrategy, bench: Bench, measured: Measured, pytestconfig: pytest.Config
) -> None:
    lab.transition(State.SERVING)
    boot = lab.board.read("/proc/sys/kernel/random/boot_id")
    rounds = max(10, int(pytestconfig.getoption("soak_hours") * 3600 / ROUND_S))
    memory_kb = []
    for number in range(rounds):
        until = time.monotonic() + ROUND_S
        bench.answered(bench.place(lab.board, count=ITEMS))
        memory_kb.append(int(lab.board.run(_PSS)))
        time.sleep(max(0.0, until - time.monotonic()))
        if number == rounds // 10:
            measured.add("daemon's PSS, early", memory_kb[-1] * 1024, unit="bytes")
    measured.add("daemon's PSS, at the end", memory_kb[-1] * 1024, unit="bytes")
    assert lab.board.read("/proc/sys/kernel/random/boot_id") == boot
    assert lab.board.run("systemctl show --property NRestarts --value shoal-agent") == "0"
    assert memory_kb[-1] <= MOST_GROWTH * memory_kb[rounds // 10]
