"""Are revocation list and access rules those of the database, and renewed each day?"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from shoal_fleet.broker.configuration import BrokerPaths
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices.models import DeviceCertificate
from shoal_fleet.devices.service import revoke
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import Authority
from shoal_fleet.revocations import Revocations

from tests.unit.fleet.boards import NOW, Board, close_database, make_database

DAY_S = 86400.0


class Site:
    """One device with one certificate, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.applied = 0
        self.sessions: Sessions = make_database()
        self.paths = BrokerPaths(folder / "broker")
        self.paths.folder.mkdir()
        self.revocations = Revocations(
            sessions=self.sessions,
            clock=lambda: self.now,
            authorities=Authorities.alone(Authority.create(folder / "authority", now=datetime.fromtimestamp(NOW, UTC))),
            paths=self.paths,
            apply=self.apply,
        )
        Board("one").enrol(self.sessions)
        with self.sessions() as session, writing(session):
            session.add(DeviceCertificate(serial="ab", device_id="d-one", not_after=NOW + 90 * DAY_S))

    def apply(self) -> None:
        self.applied += 1

    def listed(self) -> list[int]:
        crl = x509.load_pem_x509_crl(self.paths.crl.read_bytes())
        return [entry.serial_number for entry in crl]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    close_database(site.sessions)


def test_nobody_is_shut_out_at_first(site: Site) -> None:
    site.revocations.write()
    assert site.listed() == []
    assert "d-one" not in site.paths.access.read_text()
    assert site.applied == 0


def test_revoked_device_is_in_list_and_rules_once_published(site: Site) -> None:
    site.revocations.write()
    with site.sessions() as session:
        revoke(session, "one", actor="user:anna", now=NOW)
    site.revocations.publish()
    assert site.listed() == [0xAB]
    assert "user d-one\ntopic deny #" in site.paths.access.read_text()
    assert site.applied == 1


def test_list_is_renewed_when_a_day_old(site: Site) -> None:
    site.revocations.write()
    first = site.paths.crl.read_bytes()
    site.now = NOW + 0.9 * DAY_S
    site.revocations.renew()
    assert site.paths.crl.read_bytes() == first
    site.now = NOW + 1.1 * DAY_S
    site.revocations.renew()
    assert site.paths.crl.read_bytes() != first
    assert site.applied == 1


def test_missing_list_is_made(site: Site) -> None:
    site.revocations.renew()
    assert site.listed() == []
    assert site.applied == 1


def test_a_list_that_is_fresh_is_no_trouble(site: Site) -> None:
    site.revocations.write()
    assert site.revocations.find_trouble() == ""


@pytest.mark.parametrize(
    ("days", "words"),
    [(11, "wasn't renewed; every device is refused in 19.0 days"), (31, "it has ended, and every device is refused")],
)
def test_it_says_when_the_list_was_not_renewed(site: Site, days: float, words: str) -> None:
    site.revocations.write()
    site.now = NOW + days * DAY_S
    assert words in site.revocations.find_trouble()
    site.revocations.renew()
    assert site.revocations.find_trouble() == ""


def test_it_says_why_the_list_can_not_be_written_until_it_can(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.revocations.write()
    aside = site.paths.folder.with_name("aside")
    site.paths.folder.rename(aside)
    with pytest.raises(OSError, match="No such file"):
        site.revocations.renew()
    assert "can't be written: [Errno 2]" in site.revocations.find_trouble()
    aside.rename(site.paths.folder)
    assert "every device is refused in 30.0 days" in site.revocations.find_trouble()
    site.revocations.write()
    assert site.revocations.find_trouble() == ""


def test_after_the_fleet_was_down_for_longer_than_the_list_lasts_a_fresh_one_is_written_first(site: Site) -> None:
    site.revocations.write()
    site.now = NOW + 100 * DAY_S
    site.revocations.write()
    crl = x509.load_pem_x509_crl(site.paths.crl.read_bytes())
    at = datetime.fromtimestamp(site.now, UTC)
    assert crl.next_update_utc is not None
    assert crl.last_update_utc < at < crl.next_update_utc


@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_list_that_can_not_be_read_is_trouble_and_made_anew(site: Site, content: bytes) -> None:
    site.paths.crl.write_bytes(content)
    assert "none that can be read" in site.revocations.find_trouble()
    site.revocations.renew()
    assert site.revocations.find_trouble() == ""


def test_list_that_could_not_be_written_is_tried_again_before_a_day_is_over(site: Site) -> None:
    site.revocations.write()
    hidden = site.paths.folder.rename(site.paths.folder.with_name("away"))
    with site.sessions() as session:
        revoke(session, "one", actor="user:anna", now=NOW)
    with pytest.raises(OSError, match="broker"):
        site.revocations.publish()
    hidden.rename(site.paths.folder)
    site.revocations.renew()
    assert (site.listed(), site.applied) == ([0xAB], 1)


def test_damaged_list_is_made_anew(site: Site) -> None:
    site.revocations.write()
    site.paths.crl.write_bytes(site.paths.crl.read_bytes().replace(b"M", b"-", 3))
    site.revocations.renew()
    assert (site.listed(), site.applied) == ([], 1)
