"""What do the tests of the certificate authority start from?"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from shoal_fleet.pki.authority import Authority


@pytest.fixture
def now() -> datetime:
    """The real time: OpenSSL judges by it in handshakes."""
    return datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def authority(tmp_path: Path, now: datetime) -> Authority:
    return Authority.create(tmp_path / "authority", now=now)


class Board:
    """A board's TLS key, with the request that it would send."""

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.key_pem = self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def csr(self, *, common_name: str = "") -> bytes:
        names = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)] if common_name else []
        builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture
def board() -> Board:
    return Board()
