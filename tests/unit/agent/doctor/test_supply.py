"""Is told when the supply is weak, and is a file that lies not believed?"""

import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.supply import check_supply

from tests.unit.agent.doctor.sound_board import put

ALARM = "sys/class/hwmon/hwmon1/in0_lcrit_alarm"
THROTTLED = "sys/devices/platform/soc/soc:firmware/get_throttled"
BATTERY = "sys/class/power_supply/battery"
MAINS = "sys/class/power_supply/mains"


@pytest.mark.parametrize(
    ("alarm", "throttled", "expected"),
    [
        ("0", "0", Health.GOOD),
        ("1", "0", Health.BAD),
        ("0", "50005", Health.BAD),
        ("0", "50000", Health.WARNING),
        ("0", "20002", Health.GOOD),
        ("", "0", Health.UNKNOWN),
        ("", "50000", Health.WARNING),
        ("", "none", Health.UNKNOWN),
    ],
    ids=[
        "all well",
        "alarm",
        "low now",
        "was low",
        "only the clock is capped",
        "zero without the driver says nothing",
        "was low, without the driver",
        "garbage",
    ],
)
def test_raspberry_pi_is_judged_by_alarm_and_bits(board: Board, alarm: str, throttled: str, expected: Health) -> None:
    put(board, ALARM, alarm)
    put(board, THROTTLED, throttled)
    assert check_supply(board).health is expected


def test_board_that_tells_nothing_is_unknown(board: Board) -> None:
    (board.root / ALARM).unlink()
    assert check_supply(board).health is Health.UNKNOWN


@pytest.mark.parametrize(
    ("counts", "expected"), [(("0", "0"), Health.GOOD), (("0", "27"), Health.WARNING)], ids=["no events", "events"]
)
def test_over_current_events_of_a_jetson_are_counted(board: Board, counts: tuple[str, str], expected: Health) -> None:
    (board.root / ALARM).unlink()
    for number, count in enumerate(counts, start=1):
        put(board, f"sys/class/hwmon/hwmon3/oc{number}_event_cnt", count)
    found = check_supply(board)
    assert found.health is expected
    assert ("oc2 27" in found.words) == (expected is Health.WARNING)


@pytest.mark.parametrize(
    ("online", "percent", "expected", "word"),
    [
        ("1", "50", Health.GOOD, "mains"),
        ("0", "50", Health.WARNING, "battery at 50 %"),
        ("0", "9", Health.BAD, "battery at 9 %"),
        ("0", "", Health.WARNING, "battery"),
    ],
    ids=["mains", "battery", "nearly empty", "no percent"],
)
def test_battery_is_told(board: Board, online: str, percent: str, expected: Health, word: str) -> None:
    put(board, f"{MAINS}/type", "Mains")
    put(board, f"{MAINS}/online", online)
    put(board, f"{BATTERY}/type", "Battery")
    put(board, f"{BATTERY}/capacity", percent)
    found = check_supply(board)
    assert (found.health, word in found.words) == (expected, True)


def test_battery_of_a_mouse_is_none_of_the_boards(board: Board) -> None:
    put(board, f"{BATTERY}/type", "Battery")
    put(board, f"{BATTERY}/scope", "Device")
    put(board, f"{BATTERY}/capacity", "3")
    assert check_supply(board).health is Health.GOOD
