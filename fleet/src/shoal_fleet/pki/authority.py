"""What may the fleet's certificate authority be asked to sign?

Its certificate is a file. Its private key never is: who makes or loads an authority gives it
(`shoal_fleet.authority_keys` keeps those of a fleet).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from shoal_fleet.pki import certificates
from shoal_fleet.pki.certificates import CLIENT_DAYS, CRL_DAYS, SERVER_DAYS
from shoal_fleet.pki.errors import BrokenAuthority
from shoal_fleet.pki.files import PUBLIC, make_private_folder, write_whole
from shoal_fleet.pki.names import FLEET_NAME, checked_device_id

CERTIFICATE_FILE = "ca.pem"

CRL_RENEWAL = timedelta(days=1)


class Identity(msgspec.Struct, frozen=True):
    """A key made by the fleet for itself, with its certificate."""

    key_pem: bytes
    certificate_pem: bytes


class CertificateFacts(msgspec.Struct, frozen=True):
    """What the fleet records of a certificate. Times are in UTC."""

    serial: int
    common_name: str
    not_before: datetime
    not_after: datetime


class Authority:
    """The fleet's certificate authority. Times are given by the caller and carry a zone."""

    def __init__(self, *, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(
        cls,
        folder: Path,
        *,
        now: datetime,
        key: ec.EllipticCurvePrivateKey | None = None,
        files: Mapping[str, bytes] = MappingProxyType({}),
    ) -> "Authority":
        """Make a certificate and keep it in `folder` (0700), on disk when this returns.

        The certificate is written last, after `files` (name and content, for all to read): a creation that was cut
        short has signed nothing, and is done again.

        Args:
            key: of the authority, which the caller keeps, on disk before this is called. Unless it is given, a new one
                that goes with this object.

        Raises:
            BrokenAuthority: the folder already holds an authority, which boards may trust.
        """
        if (folder / CERTIFICATE_FILE).exists():
            raise BrokenAuthority(f"{folder}: expected no certificate authority, found {CERTIFICATE_FILE}")
        key = key or ec.generate_private_key(ec.SECP256R1())
        certificate = certificates.build_authority(key, now=now)
        make_private_folder(folder)
        for name, content in files.items():
            write_whole(folder / name, content, mode=PUBLIC)
        write_whole(folder / CERTIFICATE_FILE, certificate.public_bytes(Encoding.PEM), mode=PUBLIC)
        return cls(key=key, certificate=certificate)

    @classmethod
    def load(cls, folder: Path, *, key: ec.EllipticCurvePrivateKey) -> "Authority":
        """Read the certificate of an authority that `create` made.

        Raises:
            BrokenAuthority: the file is missing or damaged, or the key isn't that of the certificate.
        """
        try:
            certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE_FILE).read_bytes())
        except FileNotFoundError as error:
            raise BrokenAuthority(f"certificate authority: {error.filename} is missing") from None
        except ValueError as error:
            raise BrokenAuthority(f"certificate authority in {folder}: damaged file ({error})") from None
        if key.public_key() != certificate.public_key():
            raise BrokenAuthority(
                f"certificate authority in {folder}: its key isn't that of {CERTIFICATE_FILE}; restore the database "
                "and this folder from the same back-up"
            )
        return cls(key=key, certificate=certificate)

    @property
    def certificate_pem(self) -> bytes:
        """What boards trust: the authority's own certificate."""
        return self._certificate.public_bytes(Encoding.PEM)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate's DER, in hex: goes into enrolment tokens."""
        return certificates.fingerprint(self._certificate)

    def link(self, successor: ec.EllipticCurvePrivateKey, *, now: datetime) -> bytes:
        """Certificate in PEM by which who trusts this authority takes the key of the next one for its successor's."""
        certificate = certificates.build_link(
            successor.public_key(), issuer=self._certificate, issuer_key=self._key, now=now
        )
        return certificate.public_bytes(Encoding.PEM)

    def has_signed(self, crl_pem: bytes) -> bool:
        """Whether a revocation list is by this authority.

        Raises:
            ValueError: it isn't one.
        """
        return x509.load_pem_x509_crl(crl_pem).is_signature_valid(self._key.public_key())

    def issue_server(self, names: Sequence[str], *, now: datetime, valid_days: int = SERVER_DAYS) -> Identity:
        """Make a key and a certificate for a listener under `names`, each an IP address or a DNS name.

        Raises:
            ValueError: no name, or one that isn't an ASCII DNS name.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = certificates.build_server(
            key.public_key(),
            names=names,
            issuer=self._certificate,
            issuer_key=self._key,
            now=now,
            valid_days=valid_days,
        )
        return Identity(key_pem=_key_pem(key), certificate_pem=certificate.public_bytes(Encoding.PEM))

    def issue_fleet(self, *, now: datetime, valid_days: int = SERVER_DAYS) -> Identity:
        """Make the key and the client certificate with which the fleet itself connects to the broker."""
        key = ec.generate_private_key(ec.SECP256R1())
        pem = self._sign_client(key.public_key(), name=FLEET_NAME, now=now, valid_days=valid_days)
        return Identity(key_pem=_key_pem(key), certificate_pem=pem)

    def issue_device(self, device_id: str, *, now: datetime, valid_days: int) -> Identity:
        """Make a key and a client certificate under the name of a device, for the fleet's own use.

        Raises:
            ValueError: `device_id` isn't one that the fleet gives out.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = checked_device_id(device_id)
        pem = self._sign_client(key.public_key(), name=name, now=now, valid_days=valid_days)
        return Identity(key_pem=_key_pem(key), certificate_pem=pem)

    def issue_client(self, csr_pem: bytes, *, device_id: str, now: datetime, valid_days: int = CLIENT_DAYS) -> bytes:
        """Client certificate in PEM for the key of a device's signing request. Nothing else of the request is taken.

        Raises:
            BadCsr: the request can't be signed.
            ValueError: `device_id` isn't one that the fleet gives out.
        """
        name = checked_device_id(device_id)
        public_key = certificates.parse_csr(csr_pem)
        return self._sign_client(public_key, name=name, now=now, valid_days=valid_days)

    def crl(
        self,
        revoked: Iterable[tuple[int, datetime]],
        *,
        now: datetime,
        previous_pem: bytes | None,
        valid_days: int = CRL_DAYS,
    ) -> bytes:
        """Revocation list in PEM of (serial, time of revocation), to follow `previous_pem`, the one in use.

        Raises:
            ValueError: `previous_pem` isn't a revocation list.
        """
        crl = certificates.build_crl(
            revoked,
            issuer=self._certificate,
            issuer_key=self._key,
            now=now,
            valid_days=valid_days,
            previous=None if previous_pem is None else x509.load_pem_x509_crl(previous_pem),
        )
        return crl.public_bytes(Encoding.PEM)

    def _sign_client(
        self, public_key: ec.EllipticCurvePublicKey, *, name: str, now: datetime, valid_days: int
    ) -> bytes:
        certificate = certificates.build_client(
            public_key,
            name=name,
            issuer=self._certificate,
            issuer_key=self._key,
            now=now,
            valid_days=valid_days,
        )
        return certificate.public_bytes(Encoding.PEM)


def read_certificate(certificate_pem: bytes) -> CertificateFacts:
    """What is worth recording of a certificate that this fleet issued.

    Raises:
        ValueError: no certificate in PEM, or one without a CN.
    """
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1:
        raise ValueError(f"certificate {certificate.serial_number:x}: expected one CN, found {len(names)}")
    return CertificateFacts(
        serial=certificate.serial_number,
        common_name=str(names[0].value),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
    )


def certificate_is_due(certificate_pem: bytes, *, now: datetime) -> bool:
    """Whether a certificate should be issued anew: two thirds of its time are over."""
    facts = read_certificate(certificate_pem)
    return now >= facts.not_before + (facts.not_after - facts.not_before) * 2 / 3


def crl_end(crl_pem: bytes) -> datetime:
    """When the first of the revocation lists ends. Past that the broker refuses every client.

    Raises:
        ValueError: no revocation list in PEM.
    """
    lists = [x509.load_pem_x509_crl(pem) for pem in certificates.split_crls(crl_pem)]
    if not lists:
        raise ValueError("revocation list: expected one in PEM, found none")
    return min(one.next_update_utc or one.last_update_utc for one in lists)


def crl_is_due(crl_pem: bytes, *, now: datetime, valid_days: int = CRL_DAYS) -> bool:
    """Whether revocation lists should be signed anew: they are a day old, though they are good for a month.

    A renewal may fail for weeks before boards notice. A list that ends later than one of now would was dated by a
    clock that was ahead.

    Raises:
        ValueError: no revocation list in PEM.
    """
    age = timedelta(days=valid_days) - (crl_end(crl_pem) - now)
    return not timedelta(0) <= age < CRL_RENEWAL


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
