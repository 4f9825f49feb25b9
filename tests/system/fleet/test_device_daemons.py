"""Do real daemons keep themselves certified, and is a copied card found, against a running fleet?"""

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_agent.errors import FleetRefused
from shoal_agent.keys import PAIR
from shoal_wire import topics
from shoal_wire.topics import Down

from tests.system.fleet.broker_site import wait_until
from tests.system.fleet.device_site import Enrolled, enrol_device
from tests.system.fleet.fleet_site import Fleet, run_fleet

AGENT = Path(__file__).parents[1] / "agent"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        yield fleet


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Enrolled:
    device = enrol_device(fleet, tmp_path, tmp_path.name)
    (device.state / "agent.toml").write_text("[tuning]\nat_install = false\n")
    return device


@contextlib.contextmanager
def daemon(state: Path) -> Iterator[None]:
    """The real daemon and renewal, with an updater and fronts that do nothing."""
    idle = [
        f'["{sys.executable}", "{AGENT / name}"]' for name in ("fake_updater.py", "fake_front.py", "fake_tuning.py")
    ]
    process = subprocess.Popen(
        [sys.executable, str(AGENT / "run_daemon.py"), str(state), *idle], stderr=subprocess.PIPE
    )
    try:
        yield
    finally:
        process.terminate()
        _, log = process.communicate(timeout=60)
        print(log.decode())


def is_online(device: Enrolled) -> bool:
    return device.shown()["online"] is True


def test_a_daemon_whose_certificate_has_expired_comes_back_by_itself(device: Enrolled) -> None:
    device.let_expire()
    with daemon(device.state):
        wait_until(lambda: is_online(device), what="the device is connected with a new certificate")
    assert (device.state / PAIR).exists()


def test_of_a_copied_card_both_are_held_until_an_operator_decides(device: Enrolled, tmp_path: Path) -> None:
    with daemon(device.state):
        wait_until(lambda: device.shown()["reported"] is not None, what="the board has reported")
    copy = tmp_path / "copy"
    shutil.copytree(device.state, copy)
    with daemon(device.state):
        wait_until(lambda: is_online(device), what="the board is on again")
        with daemon(copy):
            wait_until(lambda: device.shown()["held_at"] is not None, what="both are held")
        assert device.shown()["held_reason"] == "two boards speak with its keys"
        with pytest.raises(FleetRefused, match="is held"):
            device.renew()
        entries = device.fleet.get("/api/v1/audit?action=device.held")
        assert device.id in str(entries)
        device.fleet.post(f"/api/v1/devices/{device.id}/release-hold", {}, status=200)
        counter = reported_counter(device)
        wait_until(lambda: reported_counter(device) > counter or is_online(device), what="the board goes on")
        assert device.shown()["held_at"] is None


def reported_counter(device: Enrolled) -> int:
    reported = device.shown()["reported"]
    assert isinstance(reported, dict)
    return int(reported["counter"])


def test_a_held_device_is_told_nothing_new(device: Enrolled) -> None:
    device.set_in_database(held_at=1.0, held_reason="a test")
    reply = device.fleet.http.post("/api/v1/rollouts", json={"release": "any", "version": 1, "devices": [device.id]})
    assert reply.status_code in (404, 422)
    connection = device.connect()
    connection.listen()
    assert connection.publish(topics.down(device.id, Down.DESIRED)) == "Not authorized"
    assert connection.messages.empty()
    connection.close()
