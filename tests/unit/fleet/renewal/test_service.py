"""Does a device get its next certificate by its identity key alone, and nobody else?"""

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices.models import Device, DeviceCertificate
from shoal_fleet.devices.service import revoke
from shoal_fleet.errors import Conflict, NotAllowed
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import Authority
from shoal_fleet.pki.errors import BadCsr
from shoal_fleet.renewal.service import Renewed, Terms, read_request, renew
from shoal_wire import envelope
from shoal_wire.encoding import decode, encode
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.messages import RenewalRequest, RenewalResponse
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, Board, close_database, make_database
from tests.unit.fleet.enrolment.applicant import Applicant

DAY_S = 86400.0


class Office:
    """The fleet's side of renewal, with one device."""

    def __init__(self, folder: Path) -> None:
        self.sessions: Sessions = make_database()
        authority = Authority.create(folder, now=datetime.fromtimestamp(NOW, UTC))
        self.terms = Terms(Authorities.alone(authority), "https://fleet.example:8443", 30)
        self.board = Board("one")
        self.board.enrol(self.sessions)
        self.tls = Applicant()

    def request(self, *, present_serial: str = "") -> bytes:
        request = RenewalRequest(
            device=self.board.id,
            nonce="n" * 16,
            agent_version="0.2.0",
            csr=self.tls.request().csr,
            present_serial=present_serial,
        )
        return self.board.sign(encode(request), envelope.RENEWAL)

    def renew(self, raw: bytes | None = None) -> Renewed:
        with self.sessions() as session:
            proven = read_request(session, self.request() if raw is None else raw)
        with self.sessions() as session:
            return renew(session, proven, terms=self.terms, now=NOW)

    def add_certificate(self, serial: str, *, ends_at: float) -> None:
        with self.sessions() as session, writing(session):
            session.add(DeviceCertificate(serial=serial, device_id=self.board.id, not_after=ends_at))

    def change(self, **values: object) -> None:
        with self.sessions() as session, writing(session):
            device = session.get_one(Device, self.board.id)
            for name, value in values.items():
                setattr(device, name, value)

    def revoked(self) -> set[str]:
        with self.sessions() as session:
            rows = session.scalars(select(DeviceCertificate).where(DeviceCertificate.revoked_at.is_not(None)))
            return {row.serial for row in rows}


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path / "authority")
    yield office
    close_database(office.sessions)


def test_a_device_gets_a_certificate_for_its_new_key(office: Office) -> None:
    answer = decode(office.renew().answer, RenewalResponse, what="answer")
    certificate = x509.load_pem_x509_certificate(answer.certificate.encode())
    assert certificate.public_key() == office.tls.tls.public_key()
    assert certificate.subject.rfc4514_string() == f"CN={office.board.id}"
    assert certificate.not_valid_after_utc.timestamp() == NOW + 30 * DAY_S
    assert (answer.device, answer.operators_url) == (office.board.id, "https://fleet.example:8443")
    assert answer.authorities == (office.terms.authorities.certificate_pem.decode(),)
    with office.sessions() as session:
        device = session.get_one(Device, office.board.id)
        kept = session.scalars(select(DeviceCertificate)).one()
    assert (device.renews, device.agent_version) == (True, "0.2.0")
    assert int(kept.serial, 16) == certificate.serial_number


def test_certificates_that_outlast_the_new_one_are_revoked_save_for_the_one_on_the_disk(office: Office) -> None:
    for serial, days in (("a1", 20), ("b2", 700), ("c3", 600)):
        office.add_certificate(serial, ends_at=NOW + days * DAY_S)
    assert office.renew(office.request(present_serial="c3")).has_revoked
    assert office.revoked() == {"b2"}
    assert not office.renew(office.request(present_serial="c3")).has_revoked
    assert office.renew().has_revoked
    assert office.revoked() == {"b2", "c3"}


def test_a_request_signed_by_another_is_refused(office: Office) -> None:
    stranger = Board("one")
    raw = stranger.sign(encode(decode_request(office.request())), envelope.RENEWAL)
    with pytest.raises(Untrusted):
        office.renew(raw)


def decode_request(raw: bytes) -> RenewalRequest:

    return decode(base64.b64decode(json.loads(raw)["payload"]), RenewalRequest, what="request")


def test_a_document_of_another_kind_by_the_same_key_is_refused(office: Office) -> None:
    with pytest.raises(Untrusted, match="expected a document of type"):
        office.renew(office.board.sign(encode(decode_request(office.request())), envelope.REPORTED))


def test_an_unknown_device_is_refused(office: Office) -> None:
    stranger = Board("two")
    request = encode(RenewalRequest(device=stranger.id, nonce="n" * 16, agent_version="0", csr=""))
    with pytest.raises(NotAllowed, match="not of this fleet"):
        office.renew(stranger.sign(request, envelope.RENEWAL))


def test_a_revoked_device_is_refused(office: Office) -> None:
    with office.sessions() as session:
        revoke(session, office.board.id, actor="user:anna", now=NOW)
    with pytest.raises(NotAllowed, match="is revoked"):
        office.renew()


def test_a_device_revoked_between_proof_and_certificate_is_refused(office: Office) -> None:
    with office.sessions() as session:
        proven = read_request(session, office.request())
    with office.sessions() as session:
        revoke(session, office.board.id, actor="user:anna", now=NOW)
    with office.sessions() as session, pytest.raises(NotAllowed, match="is revoked"):
        renew(session, proven, terms=office.terms, now=NOW)


def test_a_held_device_waits_for_an_operator(office: Office) -> None:
    office.change(held_at=NOW, held_reason="two boards")
    with pytest.raises(Conflict, match="release-hold"):
        office.renew()
    office.change(held_at=None, held_reason=None)
    office.renew()


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"payload": "e30="}', b"\x00" * 100, b'{"payload": 3}'])
def test_nonsense_is_refused(office: Office, raw: bytes) -> None:
    with pytest.raises(Malformed):
        office.renew(raw)


def test_a_bad_signing_request_is_refused_and_nothing_is_kept(office: Office) -> None:
    request = RenewalRequest(device=office.board.id, nonce="n" * 16, agent_version="0", csr="none")
    with pytest.raises(BadCsr):
        office.renew(office.board.sign(encode(request), envelope.RENEWAL))
    with office.sessions() as session:
        assert session.scalars(select(DeviceCertificate)).all() == []
