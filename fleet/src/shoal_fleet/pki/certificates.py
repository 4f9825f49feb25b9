"""What does each certificate of the fleet say, and from when until when?

Rules only: keys, names and times in, certificates and revocation lists out.

Every certificate is P-256 with SHA-256 (RFC 5280, RFC 5480). Who checks it decides how far its first day is moved back:

- Boards check the certificates of the authority and of servers. Many have no battery-backed clock and start with the
  time of their last shutdown, or of their image, until NTP answers. These certificates start 30 days back.
- The fleet's own machines check client certificates and revocation lists. Five minutes and one hour cover the
  difference between the clocks of two of those.
"""

import ipaddress
import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shoal_fleet.pki.errors import BadCsr

AUTHORITY_DAYS = 3653
SERVER_DAYS = 398
CLIENT_DAYS = 730
"""For an agent that doesn't renew its certificate by itself: as long as a board may lie on a shelf."""
RENEWED_DAYS = 30
"""For one that does, by default: a stolen key of TLS is good for that long at most."""
CRL_DAYS = 30

SERVER_BACKDATE = timedelta(days=30)
CLIENT_BACKDATE = timedelta(minutes=5)
CRL_BACKDATE = timedelta(hours=1)

MAX_CSR_BYTES = 8192

_CRL = re.compile(rb"-----BEGIN X509 CRL-----.+?-----END X509 CRL-----\n?", re.DOTALL)


def build_authority(key: ec.EllipticCurvePrivateKey, *, now: datetime) -> x509.Certificate:
    """Self-signed certificate of an authority that signs end certificates only (pathlen 0)."""
    name = _name("Shoal fleet authority")
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SERVER_BACKDATE)
        .not_valid_after(now + timedelta(days=AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def build_link(
    successor: ec.EllipticCurvePublicKey,
    *,
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    """The successor's key, signed by the authority before it, for as long as that one's own certificate lasts.

    It has the issuer's own name: such a certificate doesn't count towards the issuer's path length (RFC 5280, 6.1).
    """
    builder = (
        x509.CertificateBuilder()
        .subject_name(issuer.subject)
        .issuer_name(issuer.subject)
        .public_key(successor)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(successor), critical=False)
        .add_extension(_authority_key_identifier(issuer), critical=False)
    )
    return _sign(builder, issuer, issuer_key, start=now - SERVER_BACKDATE, end=issuer.not_valid_after_utc)


def build_server(
    public_key: ec.EllipticCurvePublicKey,
    *,
    names: Sequence[str],
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    valid_days: int,
) -> x509.Certificate:
    """Certificate of a listener under `names`, each an IP address or a DNS name. It is of no use to a client.

    Raises:
        ValueError: no name, or one that isn't an ASCII DNS name.
    """
    if not names:
        raise ValueError("a server certificate needs at least one IP address or DNS name")
    builder = _end_builder(public_key, subject="Shoal fleet server", issuer=issuer)
    builder = builder.add_extension(
        x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
    ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return _sign(builder, issuer, issuer_key, start=now - SERVER_BACKDATE, end=now + timedelta(days=valid_days))


def build_client(
    public_key: ec.EllipticCurvePublicKey,
    *,
    name: str,
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    valid_days: int,
) -> x509.Certificate:
    """Certificate of one who connects. Its subject is CN=`name` and nothing else; it is of no use to a server."""
    builder = _end_builder(public_key, subject=name, issuer=issuer).add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
    )
    return _sign(builder, issuer, issuer_key, start=now - CLIENT_BACKDATE, end=now + timedelta(days=valid_days))


def build_crl(
    revoked: Iterable[tuple[int, datetime]],
    *,
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    now: datetime,
    valid_days: int,
    previous: x509.CertificateRevocationList | None,
) -> x509.CertificateRevocationList:
    """Revocation list of (serial, time of revocation).

    A server that reads a new list may keep the old one beside it, and OpenSSL then takes the one with the later date,
    in whole seconds. So each list is dated at least a second after `previous`, and an hour back, so that many in
    one second still lie in the past. One that was dated ahead of `now`, by a clock that was wrong, is not followed: a
    list that doesn't count yet would shut everyone out, and OpenSSL prefers one that counts to one that doesn't.
    """
    start = (now - CRL_BACKDATE).replace(microsecond=0)
    if previous is not None and previous.last_update_utc < now - timedelta(seconds=1):
        start = max(start, previous.last_update_utc + timedelta(seconds=1))
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(start)
        .next_update(now + timedelta(days=valid_days))
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(x509.CRLNumber(int(start.timestamp())), critical=False)
    )
    for serial, when in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(when)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(issuer_key, hashes.SHA256())


def split_crls(pem: bytes) -> list[bytes]:
    """Each revocation list of a file that holds several."""
    return _CRL.findall(pem)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate's DER, in hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def parse_csr(csr_pem: bytes) -> ec.EllipticCurvePublicKey:
    """The public key of a signing request; whatever else it asks for is not read.

    Raises:
        BadCsr: too long, no PKCS #10 request in PEM, not signed by its own key, or not a P-256 key.
    """
    if len(csr_pem) > MAX_CSR_BYTES:
        raise BadCsr(f"signing request: {len(csr_pem)} bytes, expected at most {MAX_CSR_BYTES}")
    try:
        csr = x509.load_pem_x509_csr(csr_pem)
        key = csr.public_key()
        is_signed = csr.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise BadCsr(f"signing request: expected a PKCS #10 request in PEM, found none ({error})") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        found = key.curve.name if isinstance(key, ec.EllipticCurvePublicKey) else type(key).__name__
        raise BadCsr(f"signing request: expected a P-256 key, found {found}")
    if not is_signed:
        raise BadCsr("signing request: expected a signature by its own key, found another")
    return key


def _end_builder(
    public_key: ec.EllipticCurvePublicKey, *, subject: str, issuer: x509.Certificate
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(_authority_key_identifier(issuer), critical=False)
    )


def _authority_key_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)


def _sign(
    builder: x509.CertificateBuilder,
    issuer: x509.Certificate,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    start: datetime,
    end: datetime,
) -> x509.Certificate:
    builder = builder.not_valid_before(max(start, issuer.not_valid_before_utc))
    builder = builder.not_valid_after(min(end, issuer.not_valid_after_utc))
    return builder.sign(issuer_key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
