"""Is heat judged by the limits of the board's profile, else by those of its thermal zone?"""

from dataclasses import replace

import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.heat import check_heat, read_zones
from shoal_agent.profiles import NO_PROFILES

from tests.unit.agent.doctor.sound_board import put

ZONE = "sys/class/thermal/thermal_zone0"


@pytest.mark.parametrize(
    ("temperature", "expected"),
    [
        ("74900", Health.GOOD),
        ("75000", Health.WARNING),
        ("80000", Health.WARNING),
        ("85000", Health.BAD),
        ("999000", Health.UNKNOWN),
        ("", Health.UNKNOWN),
    ],
    ids=["cool", "near", "slowed", "at the limit", "no such temperature", "silent"],
)
def test_raspberry_pi_is_judged_by_80_and_85_degrees(board: Board, temperature: str, expected: Health) -> None:
    put(board, f"{ZONE}/temp", temperature)
    assert check_heat(board).health is expected


@pytest.mark.parametrize(
    ("temperature", "expected"), [("89000", Health.GOOD), ("91000", Health.WARNING), ("104500", Health.BAD)]
)
def test_without_a_profile_the_trip_points_of_the_zone_count(board: Board, temperature: str, expected: Health) -> None:
    bare = replace(board, profiles=NO_PROFILES)
    put(board, f"{ZONE}/temp", temperature)
    for number, (kind, trip) in enumerate([("passive", 95000), ("critical", 104500), ("hot", -273000)]):
        put(board, f"{ZONE}/trip_point_{number}_type", kind)
        put(board, f"{ZONE}/trip_point_{number}_temp", str(trip))
    assert check_heat(bare).health is expected


@pytest.mark.parametrize(
    ("temperature", "expected"), [("74900", Health.GOOD), ("75000", Health.WARNING), ("104000", Health.WARNING)]
)
def test_board_of_unknown_limits_is_never_bad(board: Board, temperature: str, expected: Health) -> None:
    put(board, f"{ZONE}/temp", temperature)
    found = check_heat(replace(board, profiles=NO_PROFILES))
    assert (found.health, "limits aren't known" in found.words) == (expected, True)


def test_the_hottest_zone_that_can_be_read_counts(board: Board) -> None:
    put(board, "sys/class/thermal/thermal_zone1/type", "gpu-thermal")
    put(board, "sys/class/thermal/thermal_zone1/temp", "86000")
    put(board, "sys/class/thermal/thermal_zone2/type", "off-thermal")
    assert [zone.name for zone in read_zones(board.system)] == ["cpu-thermal", "gpu-thermal"]
    found = check_heat(board)
    assert (found.health, "gpu-thermal has 86" in found.words) == (Health.BAD, True)


def test_firmware_that_slows_a_cool_board_down_is_told(board: Board) -> None:
    put(board, "sys/devices/platform/soc/soc:firmware/get_throttled", "e0008")
    found = check_heat(board)
    assert (found.health, "0xe0008" in found.words) == (Health.WARNING, True)
