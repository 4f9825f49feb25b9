"""Is a token spent once, by one board, which can ask for its answer again?"""

import base64
import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from shoal_fleet.access.models import Project
from shoal_fleet.access.moves import move_device
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices.models import Device, DeviceCertificate
from shoal_fleet.devices.service import find_device, list_devices, revoke
from shoal_fleet.enrolment.models import EnrolmentTokenRow
from shoal_fleet.enrolment.rules import read_request
from shoal_fleet.enrolment.service import Addresses, Enrolled, Terms, create_token, enrol
from shoal_fleet.errors import Conflict, NotAllowed
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.pki.authority import Authority
from shoal_fleet.trust import service as trust
from shoal_wire.encoding import decode
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, EnrolmentResponse
from shoal_wire.token import parse_token
from sqlalchemy import select

from tests.publisher import Publisher
from tests.unit.fleet.boards import NOW, close_database, make_database, make_keys
from tests.unit.fleet.enrolment.applicant import Applicant

ADDRESSES = Addresses("https://fleet.example:8443", "https://fleet.example:8444", "fleet.example", 8883)


class Office:
    """The fleet's side of enrolment, at one moment."""

    def __init__(self, sessions: Sessions, authority: Authority, keys: OnlineKeys) -> None:
        self.sessions = sessions
        self.taken_over: list[tuple[str, str]] = []
        self.authority = Authorities.alone(authority)
        self.now = NOW
        self.publisher = Publisher(
            {
                "snapshot": keys.public.snapshot,
                "timestamp": keys.public.timestamp,
                "assignment": keys.public.assignment,
            },
            now=datetime.fromtimestamp(NOW, UTC),
        )
        self.root = self.publisher.signed_root()
        self.keys = keys

    def begin(self) -> None:
        with self.sessions() as session:
            trust.begin(
                session,
                root=self.root,
                targets=self.publisher.signed_targets(),
                target_files={ASSIGNMENT_KEYS_PATH: self.publisher.assignment_keys},
                keys=self.keys,
                issuer=self.authority.fingerprint,
                now=NOW,
            )

    def token(self, name: str = "yard-1") -> str:
        with self.sessions() as session:
            return create_token(
                session, name=name, ttl_s=3600, addresses=ADDRESSES, authority=self.authority, now=self.now
            )[0]

    def enrol(self, token: str, applicant: Applicant, *, renews: bool = False) -> bytes:
        return self.enrol_at(token, applicant, renews=renews).answer

    def enrol_at(self, token: str, applicant: Applicant, *, renews: bool = False) -> Enrolled:
        with self.sessions() as session:
            return enrol(
                session,
                secret=parse_token(token).secret,
                claim=read_request(applicant.sign(renews=renews)),
                terms=Terms(ADDRESSES, self.authority, renewed_days=30, take_over=self.note_take_over),
                now=self.now,
            )

    def note_take_over(self, _session: object, old: Device, new: Device, _now: float) -> None:
        self.taken_over.append((old.id, new.id))


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    sessions = make_database()
    office = Office(
        sessions, Authority.create(tmp_path / "authority", now=datetime.fromtimestamp(NOW, UTC)), make_keys()
    )
    office.begin()
    yield office
    close_database(sessions)


def test_token_holds_what_a_board_must_trust(office: Office) -> None:
    token = parse_token(office.token())
    certificate = x509.load_pem_x509_certificate(office.authority.certificate_pem)
    assert token.url == "https://fleet.example:8443"
    assert token.ca_sha256 == certificate.fingerprint(hashes.SHA256()).hex()
    assert token.root_sha256 == hashlib.sha256(office.root).hexdigest()


def test_no_token_before_there_is_a_publisher(tmp_path: Path) -> None:
    sessions = make_database()
    authority = Authority.create(tmp_path, now=datetime.fromtimestamp(NOW, UTC))
    with pytest.raises(Conflict, match="no publisher yet"):
        Office(sessions, authority, make_keys()).token()
    close_database(sessions)


def test_enrolled_board_has_everything_it_needs(office: Office) -> None:
    applicant = Applicant()
    answer = decode(office.enrol(office.token(), applicant), EnrolmentResponse, what="answer")
    certificate = x509.load_pem_x509_certificate(answer.certificate.encode())
    assert certificate.public_key() == applicant.tls.public_key()
    assert certificate.subject.rfc4514_string() == f"CN={answer.device}"
    assert base64.b64decode(answer.root) == office.root
    assert (answer.broker_host, answer.broker_port) == ("fleet.example", 8883)
    with office.sessions() as session:
        device = session.get_one(Device, answer.device)
        issued = session.scalars(select(DeviceCertificate)).one()
    assert (device.name, device.profile) == ("yard-1", "generic-x86")
    assert int(issued.serial, 16) == certificate.serial_number


def test_same_keys_get_the_same_answer_until_the_token_ends(office: Office) -> None:
    token, applicant = office.token(), Applicant()
    first = office.enrol(token, applicant)
    office.now = NOW + 3599
    assert office.enrol(token, applicant) == first
    office.now = NOW + 3600
    with pytest.raises(NotAllowed, match="ended at 2027"):
        office.enrol(token, applicant)
    with office.sessions() as session:
        assert len(list_devices(session)) == 1


@pytest.mark.parametrize("other", ["identity", "tls", "hpke"])
def test_spent_token_is_refused_to_other_keys(office: Office, other: str) -> None:
    token, applicant = office.token(), Applicant()
    office.enrol(token, applicant)
    setattr(applicant, other, getattr(Applicant(), other))
    with pytest.raises(NotAllowed, match="other keys"):
        office.enrol(token, applicant)


def test_unknown_secret_is_refused(office: Office) -> None:
    office.token()
    with office.sessions() as session, pytest.raises(NotAllowed, match="not of this fleet"):
        enrol(
            session,
            secret="A" * 43,
            claim=read_request(Applicant().sign()),
            terms=Terms(ADDRESSES, office.authority, renewed_days=30, take_over=office.note_take_over),
            now=NOW,
        )


def test_revoked_device_does_not_get_its_answer_again(office: Office) -> None:
    token, applicant = office.token(), Applicant()
    office.enrol(token, applicant)
    with office.sessions() as session:
        revoke(session, "yard-1", actor="user:anna", now=NOW)
    with pytest.raises(NotAllowed, match="is revoked"):
        office.enrol(token, applicant)


def test_name_and_identity_key_belong_to_one_device(office: Office) -> None:
    applicant = Applicant()
    first, second = office.token("yard-1"), office.token("yard-2")
    late = office.token("yard-1")
    office.enrol(first, applicant)
    with pytest.raises(Conflict, match="identity key"):
        office.enrol(second, applicant)
    with pytest.raises(Conflict, match="device name 'yard-1'"):
        office.enrol(late, Applicant())
    with pytest.raises(Conflict, match="device name 'yard-1'"):
        office.token("yard-1")
    office.enrol(second, Applicant())  # a refused request spends nothing


def test_board_may_come_again_after_it_was_revoked(office: Office) -> None:
    applicant = Applicant()
    office.enrol(office.token(), applicant)
    with office.sessions() as session:
        old = revoke(session, "yard-1", actor="user:anna", now=NOW).id
    answer = decode(office.enrol(office.token(), applicant), EnrolmentResponse, what="answer")
    assert answer.device != old


def test_secret_is_kept_as_a_digest_only(office: Office) -> None:
    secret = parse_token(office.token()).secret
    with office.sessions() as session:
        row = session.scalars(select(EnrolmentTokenRow)).one()
    assert row.secret_sha256 == hashlib.sha256(secret.encode()).hexdigest()


def lasts_days(answer: bytes) -> int:
    certificate = x509.load_pem_x509_certificate(decode(answer, EnrolmentResponse, what="answer").certificate.encode())
    return (certificate.not_valid_after_utc - datetime.fromtimestamp(NOW, UTC)).days


def test_only_an_agent_that_renews_gets_a_short_lived_certificate(office: Office) -> None:
    assert lasts_days(office.enrol(office.token("yard-1"), Applicant())) == 730
    assert lasts_days(office.enrol(office.token("yard-2"), Applicant(), renews=True)) == 30
    with office.sessions() as session:
        assert [device.renews for device in list_devices(session)] == [False, True]


def replacement_token(office: Office) -> tuple[str, str]:
    """Id of the device that yard-1 is, and a token for a board that takes its place."""
    with office.sessions() as session:
        old = find_device(session, "yard-1").id
    with office.sessions() as session:
        made = create_token(
            session, name="yard-1", ttl_s=60, addresses=ADDRESSES, authority=office.authority, now=NOW, replaces=old
        )
    return old, made[0]


def test_a_replacement_takes_name_and_assignments_and_shuts_the_old_one_out(office: Office) -> None:
    office.enrol(office.token(), Applicant())
    old, token = replacement_token(office)
    with office.sessions() as session:
        assert find_device(session, "yard-1").revoked_at is None, "the old one goes on until the new one is there"
    enrolled = office.enrol_at(token, Applicant())
    new = decode(enrolled.answer, EnrolmentResponse, what="answer").device
    assert (enrolled.replaced, office.taken_over) == (old, [(old, new)])
    with office.sessions() as session:
        assert find_device(session, old).revoked_at == NOW
        assert (find_device(session, "yard-1").id, find_device(session, new).replaces) == (new, old)
        revoked = {row.device_id: row.revoked_at for row in session.scalars(select(DeviceCertificate))}
    assert revoked == {old: NOW, new: None}


def test_a_replacement_enrols_though_the_old_one_was_revoked_meanwhile(office: Office) -> None:
    office.enrol(office.token(), Applicant())
    old, token = replacement_token(office)
    with office.sessions() as session:
        revoke(session, old, actor="user:anna", now=NOW)
    assert office.enrol_at(token, Applicant()).replaced == old


@pytest.mark.parametrize("order", ["moved-later", "moved-just-before"])
def test_a_replacement_is_in_the_project_that_the_old_one_is_in_now(office: Office, order: str) -> None:
    """Whether the device was moved after the token was made, or while it was: then it names the old project."""
    with office.sessions() as session, writing(session):
        session.add(Project(name="garden", created_at=NOW))
    office.enrol(office.token(), Applicant())
    token = replacement_token(office)[1] if order == "moved-later" else ""
    with office.sessions() as session:
        move_device(session, "yard-1", project="garden", actor="user:anna", now=NOW)
    token = token or replacement_token(office)[1]  # made for `default`
    office.enrol(token, Applicant())
    with office.sessions() as session:
        assert find_device(session, "yard-1").project == "garden"
