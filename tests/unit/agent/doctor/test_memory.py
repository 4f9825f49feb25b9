"""Is told when memory is short, or was?"""

import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.memory import check_memory

from tests.unit.agent.doctor.sound_board import put


@pytest.mark.parametrize(
    ("total_kib", "available_kib", "kills", "expected"),
    [
        (8_000_000, 6_000_000, 0, Health.GOOD),
        (8_000_000, 6_000_000, 2, Health.WARNING),
        (8_000_000, 700_000, 0, Health.WARNING),
        (436_000, 300_000, 0, Health.GOOD),
        (250_000, 200_000, 0, Health.WARNING),
    ],
    ids=["plenty", "processes were ended", "little left", "board of 512 MB", "board of 256 MB"],
)
def test_memory_is_judged(board: Board, total_kib: int, available_kib: int, kills: int, expected: Health) -> None:
    put(board, "proc/meminfo", f"MemTotal: {total_kib} kB\nMemAvailable: {available_kib} kB\n")
    put(board, "proc/vmstat", f"oom_kill {kills}\n")
    assert check_memory(board).health is expected


@pytest.mark.parametrize("text", ["", "MemTotal:\n", "MemTotal: many kB\nMemAvailable: 3 kB\n"])
def test_kernel_that_tells_nothing_is_unknown(board: Board, text: str) -> None:
    put(board, "proc/meminfo", text)
    assert check_memory(board).health is Health.UNKNOWN
