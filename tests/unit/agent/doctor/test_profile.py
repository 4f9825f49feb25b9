"""Is told when a board isn't what it was enrolled as, or what its profile promises?"""

from dataclasses import replace

import msgspec
import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.profile import check_profile
from shoal_agent.profiles import NO_PROFILES

from tests.unit.agent.doctor.sound_board import DEVICE, put


@pytest.mark.parametrize(
    ("enrolled", "expected", "word"),
    [
        ("raspberry-pi-5", Health.GOOD, "enrolled as raspberry-pi-5: the device tree says"),
        ("generic-aarch64", Health.WARNING, "enrolled as generic-aarch64, and looks like raspberry-pi-5"),
        (None, Health.GOOD, "looks like raspberry-pi-5"),
    ],
    ids=["as itself", "as something else", "not at all"],
)
def test_enrolled_profile_is_compared(board: Board, enrolled: str | None, expected: Health, word: str) -> None:
    device = None if enrolled is None else msgspec.structs.replace(DEVICE, profile=enrolled)
    found = check_profile(replace(board, device=device))
    assert (found.health, word in found.words) == (expected, True)


def test_name_that_an_earlier_agent_wrote_is_the_same(board: Board) -> None:
    put(board, "proc/cpuinfo", "flags\t: sse2 hypervisor\n")
    device = msgspec.structs.replace(DEVICE, profile="generic-x86_64")
    assert check_profile(replace(board, machine="x86_64", device=device)).health is Health.GOOD


def test_promise_that_is_not_kept_is_told(board: Board) -> None:
    put(board, "proc/meminfo", "MemTotal: 3000000 kB\n")
    assert "3072 MB of memory" in check_profile(board).words
    put(board, "proc/cpuinfo", "Features\t: fp asimd\n")
    assert "lacks aes, asimddp" in check_profile(replace(board)).words


def test_board_without_profiles_is_no_fault(board: Board) -> None:
    assert check_profile(replace(board, profiles=NO_PROFILES, device=None)).health is Health.GOOD


def test_profile_that_can_not_be_read_is_told(board: Board) -> None:
    broken = board.profiles._replace(faults=("/usr/share/shoal/device_profiles/x.toml: not TOML",))
    found = check_profile(replace(board, profiles=broken))
    assert (found.health, "x.toml" in found.words) == (Health.WARNING, True)
