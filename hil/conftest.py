"""Which board is tested, and what is promised about it?"""

from pathlib import Path

import pytest
from shoal_wire.device_profile import DeviceProfile, parse_profile

from hil.board import BOARDS, LocalBoard

PROFILES = Path(__file__).resolve().parents[1] / "device_profiles"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--board", choices=sorted(BOARDS), help="the board to test; without it, board tests are skipped")
    parser.addoption(
        "--profile",
        choices=sorted(path.stem for path in PROFILES.glob("*.toml")),
        help="its device profile; without it, the tests that compare the board with its profile are skipped",
    )


@pytest.fixture(scope="session")
def board(pytestconfig: pytest.Config) -> LocalBoard:
    name = pytestconfig.getoption("board")
    if name is None:
        pytest.skip("no board was named: pytest hil --board local")
    return BOARDS[name]()


@pytest.fixture(scope="session")
def profile(pytestconfig: pytest.Config) -> DeviceProfile:
    name = pytestconfig.getoption("profile")
    if name is None:
        pytest.skip("no device profile was named: --profile raspberry-pi-5")
    return parse_profile((PROFILES / f"{name}.toml").read_bytes())
