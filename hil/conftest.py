"""Which board is tested, what do the tests bring along for it, and what is promised about it?"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_wire.device_profile import DeviceProfile, parse_profile

from hil.bench import Bench
from hil.board import Board
from hil.host_fleet import run_fleet
from hil.image import build
from hil.measured import Measured
from hil.strategy import BoardStrategy, State
from hil.virtual_board import VirtualBoardDriver

HERE = Path(__file__).resolve().parent
PROFILES = HERE.parent / "device_profiles"
TEST_S = 3600


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--board",
        choices=sorted(path.stem for path in HERE.glob("*.yaml")),
        help="the board to test: one of hil/*.yaml, or `--lg-env FILE` for one of yours; without it, all are skipped",
    )
    parser.addoption(
        "--profile",
        choices=sorted(path.stem for path in PROFILES.glob("*.toml")),
        help="its device profile; without it, the tests that compare the board with its profile are skipped",
    )
    parser.addoption("--package", type=Path, help="the agent's package (default: it is made of these sources)")
    parser.addoption("--cuts", type=int, default=5, help="how often power is cut in the tests of that (%(default)s)")
    parser.addoption("--cut-seed", type=int, default=0, help="draws the moments of the cuts (%(default)s)")
    parser.addoption("--soak-hours", type=float, default=24.0, help="how long the soak takes (%(default)s)")
    parser.addoption("--measured", type=Path, help="file to which measurements are appended, a line of JSON each")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """A board's name stands for its environment of labgrid."""
    if config.getoption("board"):
        config.option.lg_env = str(HERE / f"{config.getoption('board')}.yaml")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes on a quiet machine may take an hour on a busy one, where a board is emulated."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest) -> Iterator[BoardStrategy]:
    """The board under test, in whatever state: tests ask it for one."""
    if not (request.config.option.lg_env or os.environ.get("LG_ENV")):
        pytest.skip("no board was named: pytest hil --board local")
    target = request.getfixturevalue("target")
    virtual = [driver for driver in target.drivers if isinstance(driver, VirtualBoardDriver)]
    if virtual and (why_not := build.why_not()):
        pytest.skip(f"no virtual board here: {why_not}")
    strategy: BoardStrategy = request.getfixturevalue("strategy")
    yield strategy
    if strategy.power is not None:
        strategy.transition(State.OFF)
    for driver in virtual:
        driver.discard()


@pytest.fixture
def board(lab: BoardStrategy) -> Board:
    """The board under test, up, with whatever is on its disk."""
    return lab.be_up()


@pytest.fixture(scope="session")
def bench(lab: BoardStrategy, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A fleet, packages, releases and items, made known to the board's strategy."""
    folder = tmp_path_factory.mktemp("bench")
    with run_fleet(folder, host=lab.fleet_host, bind=lab.fleet_bind) as fleet:
        brought = Bench(folder, fleet=fleet, package=pytestconfig.getoption("package"))
        lab.site = brought
        try:
            yield brought
        finally:
            brought.close()


@pytest.fixture(scope="session")
def measured(lab: BoardStrategy, pytestconfig: pytest.Config) -> Measured:
    """Where measurements go."""
    return Measured(pytestconfig.getoption("measured"), is_emulated=lab.is_emulated)


@pytest.fixture(scope="session")
def profile(pytestconfig: pytest.Config) -> DeviceProfile:
    name = pytestconfig.getoption("profile")
    if name is None:
        pytest.skip("no device profile was named: --profile raspberry-pi-5")
    return parse_profile((PROFILES / f"{name}.toml").read_bytes())
