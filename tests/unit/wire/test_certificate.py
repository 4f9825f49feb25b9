"""What can't be looked at as a certificate is refused at once, whatever is wrong with it."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from shoal_wire.certificate import parse_certificate, parse_certificate_der, parse_certificates
from shoal_wire.errors import Malformed

KEY = ec.generate_private_key(ec.SECP256R1())
NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "d-board")])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
CERTIFICATE = (
    x509.CertificateBuilder()
    .subject_name(NAME)
    .issuer_name(NAME)
    .public_key(KEY.public_key())
    .serial_number(7)
    .not_valid_before(NOW)
    .not_valid_after(NOW + timedelta(days=1))
    .sign(KEY, hashes.SHA256())
)
DER = CERTIFICATE.public_bytes(Encoding.DER)
PEM = CERTIFICATE.public_bytes(Encoding.PEM)

# RFC 5280, section 4.1, and RFC 5480: version 3, id-ecPublicKey, the curve P-256.
FAULTS = {
    "version": (bytes.fromhex("a003020102"), bytes.fromhex("a003020107")),
    "kind of key": (bytes.fromhex("06072a8648ce3d0201"), bytes.fromhex("06072a8648ce3d0277")),
    "curve": (bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06082a8648ce3d030177")),
}


def test_certificates_are_read_from_both_encodings() -> None:
    assert parse_certificate(PEM, what="x") == parse_certificate_der(DER, what="x") == CERTIFICATE
    assert parse_certificates(PEM * 2, what="x") == [CERTIFICATE, CERTIFICATE]


@pytest.mark.parametrize("fault", FAULTS)
def test_certificate_with_a_part_that_cannot_be_read_is_refused(fault: str) -> None:
    before, after = FAULTS[fault]
    assert before in DER
    with pytest.raises(Malformed, match="the board's certificate: expected a certificate in DER"):
        parse_certificate_der(DER.replace(before, after, 1), what="the board's certificate")


@pytest.mark.parametrize(
    "pem", [b"", b"nonsense", PEM[:80], b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_what_is_no_certificate_is_refused(pem: bytes) -> None:
    with pytest.raises(Malformed, match=r"ca\.pem: expected a certificate in PEM"):
        parse_certificate(pem, what="ca.pem")
