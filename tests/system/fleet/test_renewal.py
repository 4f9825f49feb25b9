"""Does the agent get its next certificate from a running fleet: in time, late, and through power cuts?"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from shoal_agent.credentials import find_credentials
from shoal_agent.errors import FleetRefused, FleetUnreachable
from shoal_agent.files import DiskFiles
from shoal_agent.keys import NEXT_TLS, PAIR
from shoal_agent.state import CERTIFICATE, DEVICE, load_device
from shoal_wire import paths

from tests.system.fleet.broker_site import wait_until
from tests.system.fleet.device_site import FILES, Enrolled, copy_without, enrol_device
from tests.system.fleet.fleet_site import Fleet, run_fleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        yield fleet


@pytest.fixture
def device(fleet: Fleet, tmp_path: Path) -> Enrolled:
    return enrol_device(fleet, tmp_path, tmp_path.name)


def days_left(device: Enrolled) -> int:
    return round((device.certificate().not_valid_after_utc - datetime.now(UTC)) / timedelta(days=1))


def test_a_new_agent_gets_thirty_days_and_renews_again_and_again(device: Enrolled) -> None:
    assert (days_left(device), device.shown()["renews"]) == (30, True)
    keys = {device.certificate().public_key().public_numbers().x}  # type: ignore[union-attr]
    for _ in range(3):
        device.renew()
        keys.add(device.certificate().public_key().public_numbers().x)  # type: ignore[union-attr]
        assert device.is_let_in()
    assert len(keys) == 4, "each certificate has a key of its own"
    assert not (device.state / NEXT_TLS).exists()


def test_a_board_that_was_off_for_longer_than_its_certificate_comes_back_by_its_identity_key(device: Enrolled) -> None:
    device.let_expire()
    assert not device.is_let_in()
    device.renew()
    assert device.is_let_in()


@pytest.mark.parametrize("now", [0.0, 1e9, 4e9])
def test_a_clock_that_is_wrong_by_decades_does_not_lock_a_board_out(device: Enrolled, now: float) -> None:
    device.let_expire()
    device.renew(now=now)
    assert device.is_let_in()


def test_a_board_that_an_older_agent_enrolled_learns_where_to_ask(device: Enrolled) -> None:
    copy_without(("operators_url",), device.state / DEVICE)
    assert load_device(FILES, device.state).operators_url == ""
    device.renew()
    assert load_device(FILES, device.state).operators_url == device.fleet.program.addresses["operators_url"]


class PowerCut(Exception):
    pass


class FailingFiles(DiskFiles):
    """A disk whose power goes right before, or right after, a given change."""

    def __init__(self, *, change: int, is_before: bool) -> None:
        self.left = change
        self.is_before = is_before

    def write(self, path: Path, data: bytes) -> None:
        self._count(lambda: super(FailingFiles, self).write(path, data))

    def remove(self, path: Path) -> None:
        self._count(lambda: super(FailingFiles, self).remove(path))

    def _count(self, act: Callable[[], None]) -> None:
        self.left -= 1
        if self.left == 0 and self.is_before:
            raise PowerCut
        act()
        if self.left == 0:
            raise PowerCut


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("change", [1, 2, 3])
def test_power_may_go_at_any_change_of_the_disk(device: Enrolled, change: int, is_before: bool) -> None:
    """Changes: the new key, the pair, the waiting key's end. There is a pair that fits after each."""
    with pytest.raises(PowerCut):
        device.renew(files=FailingFiles(change=change, is_before=is_before))
    assert device.is_let_in()
    waiting = (device.state / NEXT_TLS).read_bytes() if (device.state / NEXT_TLS).exists() else None
    has_pair = (device.state / PAIR).exists()
    assert has_pair == ((change, is_before) in {(2, False), (3, True), (3, False)})
    device.renew()
    assert device.is_let_in()
    used = find_credentials(FILES, device.state).key.read_bytes()
    if waiting is not None:
        assert used.startswith(waiting) == (not has_pair), "a key that was certified is never certified again"


def test_a_held_board_gets_none_until_an_operator_lets_it_go_on(device: Enrolled) -> None:
    device.set_in_database(held_at=1.0, held_reason="two boards speak with its keys")
    with pytest.raises(FleetRefused, match="is held"):
        device.renew()
    device.fleet.post(f"/api/v1/devices/{device.id}/release-hold", {}, status=200)
    device.renew()


def test_a_revoked_board_gets_none_by_either_listener(device: Enrolled) -> None:
    device.fleet.post(f"/api/v1/devices/{device.id}/revoke", {}, status=200)
    with pytest.raises(FleetRefused, match="is revoked"):
        device.renew()


def test_a_key_of_tls_alone_gets_no_certificate(device: Enrolled, tmp_path: Path) -> None:
    """Whoever stole only that: its certificate ends in thirty days, and there is no next one."""
    other = enrol_device(device.fleet, tmp_path, f"{device.state.name}-other")
    (device.state / "keys" / "identity.pem").write_bytes((other.state / "keys" / "identity.pem").read_bytes())
    with pytest.raises(FleetRefused, match="expected a signature by"):
        device.renew()


def test_one_device_is_not_given_certificates_without_end(device: Enrolled) -> None:
    for _ in range(4):
        device.renew()
    with pytest.raises(FleetUnreachable, match="too often"):
        device.renew()


def test_an_answered_challenge_is_answered_once(device: Enrolled) -> None:
    reply = device.fleet.http.get(paths.RENEWAL_CHALLENGE, headers={"Authorization": ""})
    assert (reply.status_code, len(reply.json()["nonce"])) == (200, 56)
    for body, status in ((b"", 422), (b"{}", 422), (b" " * 200_000, 413)):
        assert device.fleet.http.post(paths.RENEWAL, content=body).status_code == status


def test_an_old_certificate_of_years_is_revoked_once_the_board_shows_a_renewed_one(device: Enrolled) -> None:
    serial = f"{device.certificate().serial_number:x}"
    with closing(sqlite3.connect(device.fleet.program.state / "fleet.db", timeout=60)) as database, database:
        database.execute("UPDATE device_certificate SET not_after = not_after + 6e7 WHERE serial = ?", (serial,))
    old = (device.state / CERTIFICATE).read_bytes()
    device.renew()
    device.renew()
    (device.state / PAIR).unlink()
    (device.state / CERTIFICATE).write_bytes(old)
    wait_until(lambda: not device.is_let_in(), what="the old certificate is refused")
