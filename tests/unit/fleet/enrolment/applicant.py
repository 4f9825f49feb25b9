"""How does a test play a board that wants to enrol?"""

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.envelope import KeySigner
from shoal_wire.grant import hpke_public_text
from shoal_wire.messages import EnrolmentRequest


class Applicant:
    """A board with its three keys."""

    def __init__(self) -> None:
        self.identity = ec.generate_private_key(ec.SECP256R1())
        self.tls = ec.generate_private_key(ec.SECP256R1())
        self.hpke = x25519.X25519PrivateKey.generate()

    def request(self) -> EnrolmentRequest:
        """A new request: its signing request has another signature each time."""
        csr = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(self.tls, hashes.SHA256())
        return EnrolmentRequest(
            name="what the board calls itself",
            profile="generic-x86",
            agent_version="0.1.0",
            identity_key=envelope.public_text(self.identity.public_key()),
            hpke_key=hpke_public_text(self.hpke.public_key()),
            csr=csr.public_bytes(Encoding.PEM).decode(),
        )

    def sign(
        self,
        request: EnrolmentRequest | None = None,
        *,
        key: ec.EllipticCurvePrivateKey | None = None,
        kind: str = envelope.ENROLMENT,
        **changes: object,
    ) -> bytes:
        """The body of the request to enrol, with fields of other values."""
        changed = msgspec.structs.replace(request or self.request(), **changes)
        return envelope.seal(encode(changed), kind, KeySigner(key or self.identity))

    @property
    def tls_key_pem(self) -> bytes:
        return self.tls.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
