"""Is told when systemd doesn't keep the agent, or gives it no control groups?"""

from dataclasses import replace

import pytest
from shoal_agent.doctor.board import Board
from shoal_agent.doctor.findings import Health
from shoal_agent.doctor.service import check_control_groups, check_unit

from tests.unit.agent.doctor.sound_board import UNIT, put


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (UNIT, Health.GOOD),
        ({}, Health.UNKNOWN),
        (UNIT | {"ActiveState": "failed", "Result": "watchdog"}, Health.BAD),
        (UNIT | {"ActiveState": "inactive"}, Health.WARNING),
        (UNIT | {"UnitFileState": "disabled"}, Health.WARNING),
        (UNIT | {"NRestarts": "7"}, Health.WARNING),
    ],
    ids=["runs", "none", "failed", "stopped", "not enabled", "restarts"],
)
def test_unit_is_judged(board: Board, unit: dict[str, str], expected: Health) -> None:
    assert check_unit(replace(board, unit=unit)).health is expected


@pytest.mark.parametrize(
    ("controllers", "command_line", "delegate", "expected", "word"),
    [
        ("cpu memory", "", "yes", Health.GOOD, "offers"),
        ("cpu", "", "yes", Health.WARNING, "no memory controller:"),
        ("cpu", "quiet cgroup_disable=memory", "yes", Health.WARNING, "cgroup_disable=memory"),
        ("", "", "yes", Health.WARNING, "version 2"),
        ("cpu memory", "", "no", Health.WARNING, "of its own"),
    ],
    ids=["all there", "not built", "turned off", "version 1", "not delegated"],
)
def test_control_groups_are_judged(
    board: Board, controllers: str, command_line: str, delegate: str, expected: Health, word: str
) -> None:
    put(board, "sys/fs/cgroup/cgroup.controllers", controllers)
    put(board, "proc/cmdline", command_line)
    found = check_control_groups(replace(board, unit=UNIT | {"Delegate": delegate}))
    assert (found.health, word in found.words) == (expected, True)
