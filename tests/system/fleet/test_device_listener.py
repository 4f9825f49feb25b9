"""Does the devices' listener serve boards of this fleet, and nobody else?"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from shoal_fleet.pki.authority import Authority
from shoal_fleet.pki.certificates import CLIENT_DAYS
from shoal_wire import paths
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from tuf.api.exceptions import DownloadHTTPError
from tuf.ngclient import Updater
from tuf.ngclient.fetcher import FetcherInterface

from tests.publisher import make_release
from tests.system.fleet.fleet_site import EnrolledBoard, Fleet, FleetProgram, authorities_of, lives, run_fleet
from tests.unit.fleet.enrolment.applicant import Applicant

RELEASE = make_release("m", 1, plaintext=bytes(range(256)) * 1000)


class BoardFetcher(FetcherInterface):
    """python-tuf's network, with the board's client certificate."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def _fetch(self, url: str) -> Iterator[bytes]:
        reply = self._http.get(url)
        if reply.status_code != 200:
            raise DownloadHTTPError(reply.text, reply.status_code)
        yield reply.content


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        fleet.publish(RELEASE)
        yield fleet


@pytest.fixture(scope="module")
def board(fleet: Fleet) -> EnrolledBoard:
    return fleet.enrol("reader")


def is_let_in(board: EnrolledBoard) -> bool:
    """With TLS 1.3 a client learns that its certificate was refused when it reads the answer."""
    try:
        with board.client() as http:
            return http.get(paths.TUF_METADATA + "timestamp.json").status_code == 200
    except httpx.TransportError:
        return False


def with_certificate(board: EnrolledBoard, certificate: bytes, applicant: Applicant) -> EnrolledBoard:
    answer = msgspec.structs.replace(board.answer, certificate=certificate.decode())
    return dataclasses.replace(board, answer=answer, applicant=applicant)


def issue(authority: Authority, applicant: Applicant, *, device_id: str, now: datetime) -> bytes:
    return authority.issue_client(applicant.request().csr.encode(), device_id=device_id, now=now)


def test_board_fetches_a_sealed_file(board: EnrolledBoard) -> None:
    with board.client() as http:
        reply = http.get(paths.SEALED + RELEASE.ciphertext_sha256)
    assert hashlib.sha256(reply.content).hexdigest() == RELEASE.ciphertext_sha256


@pytest.mark.parametrize(
    ("wanted", "status", "first", "end"),
    [
        ("bytes=0-0", 206, 0, 1),
        ("bytes=100-199", 206, 100, 200),
        ("bytes=1000-", 206, 1000, len(RELEASE.ciphertext)),
        ("bytes=-5", 206, len(RELEASE.ciphertext) - 5, len(RELEASE.ciphertext)),
        ("bytes=5-999999999", 206, 5, len(RELEASE.ciphertext)),
    ],
)
def test_board_goes_on_with_a_range(board: EnrolledBoard, wanted: str, status: int, first: int, end: int) -> None:
    with board.client() as http:
        reply = http.get(paths.SEALED + RELEASE.ciphertext_sha256, headers={"Range": wanted})
    assert (reply.status_code, reply.content) == (status, RELEASE.ciphertext[first:end])
    assert reply.headers["Content-Range"] == f"bytes {first}-{end - 1}/{len(RELEASE.ciphertext)}"


def test_range_past_the_end_is_refused_with_the_size(board: EnrolledBoard) -> None:
    size = len(RELEASE.ciphertext)
    with board.client() as http:
        reply = http.get(paths.SEALED + RELEASE.ciphertext_sha256, headers={"Range": f"bytes={size}-"})
    assert (reply.status_code, reply.headers["Content-Range"]) == (416, f"bytes */{size}")


@pytest.mark.parametrize(
    "path",
    [
        paths.SEALED + "0" * 64,
        paths.SEALED + "..%2f..%2ffleet.db",
        paths.SEALED + "incoming",
        paths.TUF_METADATA + "2.root.json",
        paths.TUF_TARGETS + "m/1/manifest.json",
        paths.TUF_TARGETS + "..%2f..%2fkeys%2fhpke.pem",
        paths.AUTHORITY,
        paths.ENROL,
        "/api/v1/devices",
        "/docs",
        "/openapi.json",
        "/",
    ],
)
def test_nothing_else_is_served(board: EnrolledBoard, path: str) -> None:
    with board.client() as http:
        reply = http.get(path)
    assert reply.status_code == 404
    assert list(reply.json()) == ["error"]


def test_nothing_can_be_written(board: EnrolledBoard) -> None:
    with board.client() as http:
        assert http.put(paths.SEALED + RELEASE.ciphertext_sha256, content=b"").status_code == 405


def test_client_of_python_tuf_bootstraps_and_gets_the_manifest(board: EnrolledBoard, tmp_path: Path) -> None:
    url = board.answer.devices_url
    with board.client() as http:
        updater = Updater(
            metadata_dir=str(tmp_path),
            metadata_base_url=url + paths.TUF_METADATA,
            target_dir=str(tmp_path),
            target_base_url=url + paths.TUF_TARGETS,
            fetcher=BoardFetcher(http),
            bootstrap=msgspec.convert(board.answer.root, bytes),
        )
        updater.refresh()
        manifest = updater.get_targetinfo("m/1/manifest.json")
        keys = updater.get_targetinfo(ASSIGNMENT_KEYS_PATH)
        assert manifest is not None
        assert keys is not None
        assert Path(updater.download_target(manifest)).read_bytes() == RELEASE.manifest
        found = json.loads(Path(updater.download_target(keys)).read_bytes())
    assert found["keys"] == [json.loads((board.folder / "state" / "fleet-keys.json").read_text())["assignment"]]


def test_client_without_a_certificate_is_refused(fleet: Fleet) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(fleet.program.addresses["devices_url"] + "/", verify=fleet.context, trust_env=False)


def test_certificate_of_another_authority_is_refused(board: EnrolledBoard, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    foreign = Authority.create(tmp_path, now=now)
    applicant = Applicant()
    certificate = issue(foreign, applicant, device_id=board.answer.device, now=now)
    assert not is_let_in(with_certificate(board, certificate, applicant))


def test_expired_certificate_is_refused(board: EnrolledBoard, fleet: Fleet) -> None:
    authority = authorities_of(fleet.program.state).issuer
    applicant, now = Applicant(), datetime.now(UTC)
    fresh = issue(authority, applicant, device_id=board.answer.device, now=now)
    assert is_let_in(with_certificate(board, fresh, applicant))
    expired = issue(authority, applicant, device_id=board.answer.device, now=now - timedelta(days=CLIENT_DAYS + 1))
    assert not is_let_in(with_certificate(board, expired, applicant))


def test_server_certificate_does_not_do_for_a_client(board: EnrolledBoard, fleet: Fleet) -> None:
    authority = authorities_of(fleet.program.state).issuer
    server = authority.issue_server(["127.0.0.1"], now=datetime.now(UTC))
    chain = board.folder / "server-as-client.pem"
    chain.write_bytes(server.certificate_pem + server.key_pem)
    context = board.context()
    context.load_cert_chain(chain)
    with pytest.raises(httpx.TransportError), httpx.Client(verify=context, trust_env=False) as http:
        http.get(board.answer.devices_url + paths.TUF_METADATA + "timestamp.json")


def test_self_signed_certificate_with_a_known_name_is_refused(board: EnrolledBoard) -> None:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name.from_rfc4514_string(f"CN={board.answer.device}")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    applicant = Applicant()
    applicant.tls = key
    assert not is_let_in(with_certificate(board, certificate.public_bytes(Encoding.PEM), applicant))


def test_revoked_certificate_is_refused_at_once_and_others_go_on(fleet: Fleet, board: EnrolledBoard) -> None:
    revoked = fleet.enrol("to-be-revoked")
    assert is_let_in(revoked)
    with revoked.client() as open_connection:
        assert open_connection.get(paths.TUF_METADATA + "timestamp.json").status_code == 200
        fleet.post("/api/v1/devices/to-be-revoked/revoke", {}, status=200)
        with pytest.raises(httpx.TransportError):
            for _ in range(2):  # a request may meet the old connection while it is being closed
                open_connection.get(paths.TUF_METADATA + "timestamp.json")
    assert not is_let_in(revoked)
    assert is_let_in(board)


def test_revocation_counts_after_a_restart(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        fleet.begin()
        fleet.publish(RELEASE)
        kept, revoked = fleet.enrol("kept"), fleet.enrol("revoked")
        fleet.post("/api/v1/devices/revoked/revoke", {}, status=200)
        broker = fleet.program.broker_pid()
        assert fleet.program.end() == 0
        assert not lives(broker)
        again = FleetProgram(fleet.program.state)
        try:
            assert is_let_in(kept)
            assert not is_let_in(revoked)
        finally:
            assert again.end() == 0
