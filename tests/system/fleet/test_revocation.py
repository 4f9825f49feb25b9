"""Is a device that was shut out gone at once, while all others stay, also after the fleet was down for long?"""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from shoal_fleet.command.account import Login, save_login
from shoal_fleet.command.cli import main
from shoal_wire import topics
from shoal_wire.topics import Up

from tests.system.fleet.broker_site import DEADLINE_S, wait_until
from tests.system.fleet.device_site import Enrolled, enrol_device
from tests.system.fleet.fleet_site import Fleet, FleetProgram, authorities_of, run_fleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        yield fleet


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Enrolled:
    return enrol_device(fleet, tmp_path, tmp_path.name)


def test_an_open_connection_is_ended_and_no_other_is_let_in(fleet: Fleet, device: Enrolled, tmp_path: Path) -> None:
    other = enrol_device(fleet, tmp_path, f"{tmp_path.name}-other")
    connection, others = device.connect(), other.connect()
    connection.listen()
    fleet.post(f"/api/v1/devices/{device.id}/revoke", {}, status=200)
    connection.ended.get(timeout=DEADLINE_S)
    wait_until(lambda: not device.is_let_in(), what="the device is refused")
    assert others.publish(topics.up(other.id, Up.BATCH)) in {"Success", "No matching subscribers"}
    assert others.ended.empty()
    assert connection.messages.empty()
    for one in (connection, others):
        one.close()


def test_an_open_connection_is_ended_though_the_revocation_can_not_be_written(fleet: Fleet, device: Enrolled) -> None:
    """The upkeep tries to write it again; who is connected may not stay until then."""
    connection = device.connect()
    access = fleet.program.state / "broker" / "access"
    rules = access.read_bytes()
    access.unlink()
    (access / "in the way").mkdir(parents=True)
    try:
        assert fleet.http.post(f"/api/v1/devices/{device.id}/revoke").status_code == 500
        connection.ended.get(timeout=DEADLINE_S)
    finally:
        shutil.rmtree(access)
        access.write_bytes(rules)
        connection.close()
    assert device.shown()["revoked_at"] is not None
    assert fleet.get("/api/v1/health") == {"status": "degraded"}


def test_what_is_queued_for_a_revoked_device_is_gone(fleet: Fleet, device: Enrolled) -> None:
    """The session is taken over and ends: nothing of it waits at the broker."""
    connection = device.connect()
    fleet.post(f"/api/v1/devices/{device.id}/revoke", {}, status=200)
    connection.ended.get(timeout=DEADLINE_S)
    connection.close()
    log = fleet.program.state / "broker" / "mosquitto.log"
    wait_until(lambda: f"Client {device.id} disconnected" in log.read_text(), what="the fleet's own connection went")


def test_a_device_out_of_use_is_shut_out_and_keeps_its_history(fleet: Fleet, device: Enrolled) -> None:
    connection = device.connect()
    shown = fleet.post(f"/api/v1/devices/{device.id}/decommission", {}, status=200)
    assert None not in (shown["decommissioned_at"], shown["revoked_at"])
    connection.ended.get(timeout=DEADLINE_S)
    connection.close()
    assert device.shown()["name"] == shown["name"]
    reply = fleet.http.post(f"/api/v1/devices/{device.id}/decommission")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")


class Operator:
    """`shoal`, in this process, as one who is logged in."""

    def __init__(self, fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
        self._login = Login(
            url=fleet.program.addresses["operators_url"],
            token=fleet.token,
            authority=fleet.program.authority.read_text(),
        )
        self._capsys = capsys

    def shoal(self, *words: str) -> tuple[int, str, str]:
        """Exit code and what was said on both."""
        code = main(words)
        said = self._capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def operator(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Operator:
    made = Operator(fleet, capsys)
    monkeypatch.setenv("SHOAL_LOGIN", str(tmp_path / "login.json"))
    save_login(made._login)
    return made


def test_the_command_renames_replaces_and_takes_out_of_use(
    fleet: Fleet, device: Enrolled, operator: Operator, tmp_path: Path
) -> None:
    name, new_name = tmp_path.name, f"{tmp_path.name[:40]}-gate"
    assert operator.shoal("device", "rename", name, "--name", new_name)[0] == 0
    assert device.shown()["name"] == new_name
    code, out, _ = operator.shoal("device", "show", new_name)
    assert (code, "renewed by itself" in out) == (0, True)
    code, token, said = operator.shoal("device", "replace", new_name)
    assert (code, "The old one stays until then" in said) == (0, True)
    assert device.is_let_in()
    new = enrol_device(fleet, tmp_path, "replacement", token=token.strip())
    assert (new.shown()["name"], new.shown()["replaces"]) == (new_name, device.id)
    assert device.shown()["revoked_at"] is not None
    wait_until(lambda: not device.is_let_in(), what="the old one is refused")
    assert new.is_let_in()
    assert operator.shoal("device", "decommission", new_name)[0] == 2
    assert operator.shoal("device", "decommission", new_name, "--yes")[0] == 0
    code, out, _ = operator.shoal("device", "show", new.id)
    assert "out of use" in out
    code, _, said = operator.shoal("device", "rename", new.id, "--name", "ghost")
    assert (code, "is revoked" in said) == (1, True)


def test_the_command_releases_a_hold_and_says_why_it_was(device: Enrolled, operator: Operator) -> None:
    code, _, said = operator.shoal("device", "release-hold", device.id)
    assert (code, "isn't held" in said) == (1, True)
    device.set_in_database(held_at=1.0, held_reason="two boards speak with its keys")
    _, out, _ = operator.shoal("device", "show", device.id)
    assert "since 1970-01-01 00:00:01 UTC: two boards speak with its keys" in out
    assert operator.shoal("device", "release-hold", device.id)[0] == 0
    assert device.shown()["held_at"] is None


def test_after_longer_than_the_list_is_valid_devices_come_back_at_the_fleets_start(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        fleet.begin()
        device, revoked = (enrol_device(fleet, tmp_path, name) for name in ("kept", "revoked"))
        fleet.post(f"/api/v1/devices/{revoked.id}/revoke", {}, status=200)
        assert fleet.program.end() == 0
        make_list_past(fleet.program.state)
        again = FleetProgram(fleet.program.state)
        try:
            wait_until(device.is_let_in, what="the device is back")
            assert not revoked.is_let_in()
            reply = httpx.get(
                again.addresses["operators_url"] + "/api/v1/health", verify=fleet.context, trust_env=False
            )
            assert reply.json() == {"status": "ok"}
        finally:
            assert again.end() == 0


def make_list_past(state: Path) -> None:
    """As if the fleet had been down since: its own list has ended, for the broker too."""
    authorities = authorities_of(state)
    long_ago = datetime.now(UTC) - timedelta(days=40)
    (state / "broker" / "crl.pem").write_bytes(authorities.crl([], now=long_ago, previous_pem=None))
