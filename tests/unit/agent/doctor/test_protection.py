"""Is told what others could reach?"""

from dataclasses import replace

import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.protection import check_core_dumps, check_keys, check_state, check_swap

from tests.unit.agent.doctor.sound_board import UNIT, put

SWAPS = "Filename Type Size Used Priority\n/var/swap file 102396 0 -2\n"


def test_state_folder_that_others_may_read_is_wrong(board: Board) -> None:
    board.state.chmod(0o750)
    found = check_state(board)
    assert (found.health, "0750" in found.words, "chmod 0700" in found.advice) == (Health.BAD, True, True)


def test_state_folder_among_what_workers_read_is_wrong(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_state(board).health is Health.GOOD
    monkeypatch.setenv("LD_LIBRARY_PATH", str(board.state.parent))
    assert check_state(board).health is Health.BAD


def test_key_that_others_may_read_is_named(board: Board) -> None:
    assert check_keys(board).health is Health.GOOD
    (board.state / "keys/hpke.pem").chmod(0o640)
    found = check_keys(board)
    assert (found.health, "hpke.pem" in found.words, "tls.pem" in found.words) == (Health.BAD, True, False)


@pytest.mark.parametrize(
    ("unit", "controllers", "expected"),
    [
        (UNIT, "cpu memory pids", Health.GOOD),
        (UNIT | {"LimitMEMLOCK": "8388608"}, "cpu memory pids", Health.GOOD),
        (UNIT, "cpu pids", Health.GOOD),
        (UNIT | {"LimitMEMLOCK": "8388608"}, "cpu pids", Health.BAD),
        (UNIT | {"MemorySwapMax": "infinity", "LimitMEMLOCK": "8388608"}, "cpu memory pids", Health.BAD),
        ({}, "cpu memory pids", Health.WARNING),
    ],
    ids=["both", "by the group", "by the lock", "without controller", "by neither", "without unit"],
)
def test_swap_to_a_disk_is_judged_by_what_forbids_it(
    board: Board, unit: dict[str, str], controllers: str, expected: Health
) -> None:
    put(board, "proc/swaps", SWAPS)
    put(board, "sys/fs/cgroup/cgroup.controllers", controllers)
    found = check_swap(replace(board, unit=unit))
    assert (found.health, "/var/swap" in found.words) == (expected, True)


def test_unit_that_allows_core_files_is_told(board: Board) -> None:
    assert check_core_dumps(board).health is Health.GOOD
    assert check_core_dumps(replace(board, unit=UNIT | {"LimitCORE": "infinity"})).health is Health.WARNING
