"""Does the authority sign only what it should, and keep its key to itself?"""

import base64
import hashlib
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.pki.authority import (
    Authority,
    certificate_is_due,
    crl_is_due,
    read_certificate,
)
from shoal_fleet.pki.certificates import parse_csr
from shoal_fleet.pki.errors import BadCsr, BrokenAuthority

DAY = timedelta(days=1)


class Board(Protocol):
    key: ec.EllipticCurvePrivateKey

    def csr(self, *, common_name: str = "") -> bytes: ...


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


KEY = ec.generate_private_key(ec.SECP256R1())


def test_folder_is_the_owners_alone_and_holds_no_private_key(tmp_path: Path, now: datetime) -> None:
    Authority.create(tmp_path / "a" / "b", key=KEY, now=now)
    assert mode(tmp_path / "a" / "b") == 0o700
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["ca.pem"]
    assert b"PRIVATE" not in (tmp_path / "a" / "b" / "ca.pem").read_bytes()


def test_loads_what_it_created(tmp_path: Path, now: datetime) -> None:
    authority = Authority.create(tmp_path / "authority", key=KEY, now=now)
    loaded = Authority.load(tmp_path / "authority", key=KEY)
    assert loaded.certificate_pem == authority.certificate_pem
    der = x509.load_pem_x509_certificate(authority.certificate_pem).public_bytes(Encoding.DER)
    assert loaded.fingerprint == hashlib.sha256(der).hexdigest()


def test_never_replaces_an_authority(tmp_path: Path, now: datetime, authority: Authority) -> None:
    with pytest.raises(BrokenAuthority, match=r"found ca\.pem"):
        Authority.create(tmp_path / "authority", now=now)
    assert (tmp_path / "authority" / "ca.pem").read_bytes() == authority.certificate_pem


def test_creation_cut_short_is_done_again_with_the_same_key(tmp_path: Path, now: datetime) -> None:
    Authority.create(tmp_path / "authority", key=KEY, now=now)
    (tmp_path / "authority" / "ca.pem").unlink()
    again = Authority.create(tmp_path / "authority", key=KEY, now=now)
    assert Authority.load(tmp_path / "authority", key=KEY).fingerprint == again.fingerprint


def test_refuses_a_folder_without_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(BrokenAuthority, match=r"ca\.pem is missing"):
        Authority.load(tmp_path / "authority", key=KEY)


@pytest.mark.usefixtures("authority")
def test_refuses_the_key_of_another_authority(tmp_path: Path) -> None:
    with pytest.raises(BrokenAuthority, match=r"its key isn't that of ca\.pem"):
        Authority.load(tmp_path / "authority", key=KEY)


@pytest.mark.usefixtures("authority")
def test_refuses_a_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "authority" / "ca.pem").write_bytes(b"-----BEGIN NOTHING-----\n")
    with pytest.raises(BrokenAuthority, match="damaged"):
        Authority.load(tmp_path / "authority", key=KEY)


def test_authority_may_sign_end_certificates_only(authority: Authority, now: datetime) -> None:
    certificate = x509.load_pem_x509_certificate(authority.certificate_pem)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca, constraints.value.path_length) == (True, True, 0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign, usage.value.digital_signature) == (
        True,
        True,
        False,
    )
    assert certificate.not_valid_after_utc >= now + 3652 * DAY


def test_client_gets_the_given_name_and_its_own_key(authority: Authority, now: datetime, board: Board) -> None:
    pem = authority.issue_client(board.csr(common_name="shoal-fleet"), device_id="board-0001", now=now)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.subject.rfc4514_string() == "CN=board-0001"
    assert certificate.public_key() == board.key.public_key()
    facts = read_certificate(pem)
    assert (facts.common_name, facts.serial) == ("board-0001", certificate.serial_number)
    assert (facts.not_before, facts.not_after) == (now - timedelta(minutes=5), now + 730 * DAY)


def test_client_takes_no_extension_of_the_request(authority: Authority, now: datetime, board: Board) -> None:
    csr = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("fleet.example")]), critical=False)
        .sign(board.key, hashes.SHA256())
    )
    pem = authority.issue_client(csr.public_bytes(Encoding.PEM), device_id="board-0001", now=now)
    extensions = x509.load_pem_x509_certificate(pem).extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    with pytest.raises(x509.ExtensionNotFound):
        extensions.get_extension_for_class(x509.SubjectAlternativeName)


def test_no_certificate_outlives_the_authority(authority: Authority, now: datetime, board: Board) -> None:
    end = x509.load_pem_x509_certificate(authority.certificate_pem).not_valid_after_utc
    pem = authority.issue_client(board.csr(), device_id="board-0001", now=end - DAY)
    assert read_certificate(pem).not_after == end


@pytest.mark.parametrize("device", ["shoal-fleet", "a/b/c", "board+", "board#", "$board", "a b", "", "x" * 64, "abc\n"])
def test_refuses_a_device_id_that_means_something_else(
    authority: Authority, now: datetime, board: Board, device: str
) -> None:
    with pytest.raises(ValueError, match="device id"):
        authority.issue_client(board.csr(), device_id=device, now=now)


def request(key: object) -> bytes:
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, algorithm).public_bytes(Encoding.PEM)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (rsa.generate_private_key(65537, 2048), "RSAPublicKey"),
        (ec.generate_private_key(ec.SECP384R1()), "secp384r1"),
        (ec.generate_private_key(ec.SECP256K1()), "secp256k1"),
        (ed25519.Ed25519PrivateKey.generate(), "Ed25519PublicKey"),
    ],
)
def test_refuses_a_key_of_another_kind(authority: Authority, now: datetime, key: object, found: str) -> None:
    with pytest.raises(BadCsr, match=f"expected a P-256 key, found {found}"):
        authority.issue_client(request(key), device_id="board-0001", now=now)


def test_refuses_a_request_signed_by_another_key(authority: Authority, now: datetime, board: Board) -> None:
    der = bytearray(x509.load_pem_x509_csr(board.csr()).public_bytes(Encoding.DER))
    own = board.key.public_key().public_bytes(Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    other = (
        ec.generate_private_key(ec.SECP256R1())
        .public_key()
        .public_bytes(Encoding.X962, serialization.PublicFormat.UncompressedPoint)
    )
    forged = x509.load_der_x509_csr(bytes(der).replace(own, other)).public_bytes(Encoding.PEM)
    with pytest.raises(BadCsr, match="own key"):
        authority.issue_client(forged, device_id="board-0001", now=now)


@pytest.mark.parametrize(
    "csr",
    [b"", b"hello", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", b"x" * 9000],
)
def test_refuses_what_is_no_request(authority: Authority, now: datetime, csr: bytes) -> None:
    with pytest.raises(BadCsr, match="signing request"):
        authority.issue_client(csr, device_id="board-0001", now=now)


SHARED = ec.generate_private_key(ec.SECP256R1())
GOOD_CSR = (
    x509.CertificateSigningRequestBuilder()
    .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "board")]))
    .sign(SHARED, hashes.SHA256())
    .public_bytes(Encoding.DER)
)


@given(position=st.integers(0, len(GOOD_CSR) - 1), bit=st.integers(0, 7))
def test_flipped_bit_never_yields_another_key(position: int, bit: int) -> None:
    damaged = bytearray(GOOD_CSR)
    damaged[position] ^= 1 << bit
    body = base64.b64encode(damaged)
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + body + b"\n-----END CERTIFICATE REQUEST-----\n"
    try:
        key = parse_csr(pem)
    except BadCsr:
        return
    assert key == SHARED.public_key()  # the count of unused bits after the signature means nothing


def test_refuses_a_request_of_an_unknown_version() -> None:
    other = GOOD_CSR.replace(b"\x02\x01\x00", b"\x02\x01\x01", 1)  # RFC 2986: version is always 0
    pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.b64encode(other) + b"\n-----END CERTIFICATE REQUEST-----\n"
    with pytest.raises(BadCsr, match="version"):
        parse_csr(pem)


def test_server_is_named_by_addresses_and_names(authority: Authority, now: datetime) -> None:
    server = authority.issue_server(["127.0.0.1", "::1", "fleet.example"], now=now)
    names = (
        x509.load_pem_x509_certificate(server.certificate_pem)
        .extensions.get_extension_for_class(x509.SubjectAlternativeName)
        .value
    )
    assert [str(name) for name in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]
    assert names.get_values_for_type(x509.DNSName) == ["fleet.example"]


def test_refuses_a_server_without_a_name(authority: Authority, now: datetime) -> None:
    with pytest.raises(ValueError, match="at least one"):
        authority.issue_server([], now=now)


def test_certificate_is_due_when_two_thirds_are_over(authority: Authority, board: Board) -> None:
    start = datetime(2027, 1, 1, tzinfo=UTC)
    pem = authority.issue_client(board.csr(), device_id="board-0001", now=start, valid_days=90)
    assert not certificate_is_due(pem, now=start + 59 * DAY)
    assert certificate_is_due(pem, now=start + 61 * DAY)


def test_crl_is_due_after_a_day(authority: Authority, now: datetime) -> None:
    crl = authority.crl([], now=now, previous_pem=None)
    assert not crl_is_due(crl, now=now + timedelta(hours=23))
    assert crl_is_due(crl, now=now + timedelta(hours=24))
    assert x509.load_pem_x509_crl(crl).next_update_utc == now + 30 * DAY


def test_each_crl_is_later_than_the_one_before(authority: Authority, now: datetime) -> None:
    first = authority.crl([], now=now, previous_pem=None)
    second = authority.crl([(7, now)], now=now, previous_pem=first)
    third = authority.crl([(7, now)], now=now, previous_pem=second)
    dates = [x509.load_pem_x509_crl(crl).last_update_utc for crl in (first, second, third)]
    assert dates == sorted(set(dates))
    assert dates[-1] < now


def test_crl_counts_at_once_though_the_clock_was_set_back(authority: Authority, now: datetime) -> None:
    ahead = authority.crl([], now=now + DAY, previous_pem=None)
    crl = x509.load_pem_x509_crl(authority.crl([(7, now)], now=now, previous_pem=ahead))
    assert crl.last_update_utc < now


def test_crl_names_each_serial_with_its_time(authority: Authority, now: datetime) -> None:
    crl = x509.load_pem_x509_crl(authority.crl([(7, now - DAY), (9, now)], now=now, previous_pem=None))
    assert {(entry.serial_number, entry.revocation_date_utc) for entry in crl} == {(7, now - DAY), (9, now)}
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem)
    assert crl.is_signature_valid(issuer.public_key())  # type: ignore[arg-type]
