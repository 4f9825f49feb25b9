"""Can labgrid make something of every environment, and is what tests ask for named by one of them?"""

import re
from pathlib import Path

import pytest
from labgrid import Environment

from hil.strategy import BoardStrategy

HIL = Path(__file__).resolve().parents[3] / "hil"
ENVIRONMENTS = sorted(path.stem for path in HIL.glob("*.yaml"))


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environment_has_a_board_with_our_strategy(name: str) -> None:
    environment = Environment(str(HIL / f"{name}.yaml"))
    strategy = environment.get_target().get_driver("Strategy", activate=False)
    assert isinstance(strategy, BoardStrategy)
    assert strategy.shell is not None and strategy.files is not None
    assert (strategy.power is not None) is ("power" in environment.get_target_features())


def test_every_capability_that_a_test_asks_for_is_had_by_some_board() -> None:
    had = set().union(*(Environment(str(HIL / f"{name}.yaml")).get_target_features() for name in ENVIRONMENTS))
    asked = {
        word
        for file in HIL.glob("test_*.py")
        for marker in re.findall(r"lg_feature\((.*?)\)", file.read_text())
        for word in re.findall(r'"(\w+)"', marker)
    }
    assert asked <= had
    assert {"install", "power", "network", "sensors"} <= asked
