"""Does a board notice heat, an empty battery and a sagging supply?"""

import json
from collections.abc import Iterator

import pytest

from hil.bench import Bench
from hil.board import Board
from hil.strategy import BoardStrategy, State

pytestmark = [pytest.mark.long, pytest.mark.lg_feature(["install", "sensors"])]

PARAMETERS = "/sys/module/edge_fake/parameters"
HEALTHY = {"temperature_mc": 45000, "under_voltage": 0, "throttled": 0, "mains_online": 1, "battery_percent": 80}


@pytest.fixture
def sensors(lab: BoardStrategy, bench: Bench) -> Iterator[Board]:
    """A board with an agent, whose sensors show what the test writes."""
    lab.reach(State.INSTALLED)
    yield lab.board
    show(lab.board, **HEALTHY)


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        pytest.param({}, {"heat": "good", "supply": "good"}, id="healthy"),
        # Warning and not bad: nobody has said what this board's limit is.
        pytest.param({"temperature_mc": 95000}, {"heat": "warning", "supply": "good"}, id="hot"),
        pytest.param({"under_voltage": 1, "throttled": 0x10001}, {"heat": "good", "supply": "bad"}, id="under-voltage"),
        pytest.param({"mains_online": 0, "battery_percent": 60}, {"supply": "warning"}, id="on-battery"),
        pytest.param({"mains_online": 0, "battery_percent": 4}, {"supply": "bad"}, id="battery-nearly-empty"),
    ],
)
def test_doctor_says_what_a_sensor_shows(sensors: Board, shown: dict[str, int], found: dict[str, str]) -> None:
    show(sensors, **HEALTHY | shown)
    # Its exit code is 1 where anything is bad.
    checks = json.loads(sensors.run("shoal-agent doctor --json || true"))
    assert {one["check"]: one["health"] for one in checks if one["check"] in found} == found


def test_all_sensors_of_a_board_are_there(board: Board) -> None:
    show(board, **HEALTHY)
    assert board.read("/sys/class/thermal/thermal_zone0/temp") == "45000"
    assert board.read("/sys/class/power_supply/fake_battery/capacity") == "80"
    assert board.read("/sys/class/power_supply/fake_mains/online") == "1"
    assert board.read("/sys/devices/platform/soc/soc:firmware/get_throttled") == "0"
    assert board.run("cat /sys/class/hwmon/hwmon*/in0_lcrit_alarm") == "0"
    board.run("echo 600000 > /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq")
    assert board.read("/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq") == "600000"
    board.run("echo 1500000 > /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq")


def show(board: Board, **values: int) -> None:
    """Have the sensors show values."""
    board.run(" && ".join(f"echo {value} > {PARAMETERS}/{name}" for name, value in values.items()))
