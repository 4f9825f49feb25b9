"""What is a key for content keys that should stay secret from whoever gets a quantum computer later?

A pair of ML-KEM-768 (FIPS 203) and X25519, which HPKE uses as one KEM, MLKEM768-X25519 (draft-ietf-hpke-pq, the
X-Wing construction): an attacker must break both. As bytes, private: ML-KEM's seed d ‖ z, 64, then X25519, 32; public:
ML-KEM's encapsulation key, 1184, then X25519, 32.
"""

import base64

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import mlkem, x25519

from shoal_wire.encoding import decode_base64
from shoal_wire.errors import Malformed, Unsupported

PRIVATE_BYTES = 96
PUBLIC_BYTES = 1216
_SEED_BYTES = 64
_ENCAPSULATION_BYTES = 1184


class HybridPublicKey:
    """The public pair."""

    def __init__(self, raw: bytes) -> None:
        """Raises ValueError where the bytes are no such pair."""
        if len(raw) != PUBLIC_BYTES:
            raise ValueError(f"{len(raw)} bytes, expected {PUBLIC_BYTES}")
        self.raw = raw
        x25519_key = x25519.X25519PublicKey.from_public_bytes(raw[_ENCAPSULATION_BYTES:])
        self.key = hpke.MLKEM768X25519PublicKey(
            mlkem.MLKEM768PublicKey.from_public_bytes(raw[:_ENCAPSULATION_BYTES]), x25519_key
        )


class HybridPrivateKey:
    """The private pair."""

    def __init__(self, raw: bytes) -> None:
        """Raises ValueError where the bytes are no such pair."""
        if len(raw) != PRIVATE_BYTES:
            raise ValueError(f"{len(raw)} bytes, expected {PRIVATE_BYTES}")
        self.raw = raw
        self._mlkem = mlkem.MLKEM768PrivateKey.from_seed_bytes(raw[:_SEED_BYTES])
        self._x25519 = x25519.X25519PrivateKey.from_private_bytes(raw[_SEED_BYTES:])
        self.key = hpke.MLKEM768X25519PrivateKey(self._mlkem, self._x25519)

    @classmethod
    def generate(cls) -> "HybridPrivateKey":
        """A fresh pair.

        Raises:
            Unsupported: the cryptographic library of this machine has no ML-KEM.
        """
        try:
            seed = mlkem.MLKEM768PrivateKey.generate().private_bytes_raw()
        except UnsupportedAlgorithm as error:
            raise Unsupported(f"hybrid key: this machine's OpenSSL has no ML-KEM-768 ({error})") from None
        return cls(seed + x25519.X25519PrivateKey.generate().private_bytes_raw())

    def public_key(self) -> HybridPublicKey:
        """What content keys are sealed to."""
        return HybridPublicKey(
            self._mlkem.public_key().public_bytes_raw() + self._x25519.public_key().public_bytes_raw()
        )


def hybrid_public_text(key: HybridPublicKey) -> str:
    """A public pair as base64 text."""
    return base64.b64encode(key.raw).decode()


def parse_hybrid_public(text: str, *, what: str) -> HybridPublicKey:
    """Read a key from `hybrid_public_text`.

    Raises:
        Malformed: not such a pair in base64.
        Unsupported: this machine has no ML-KEM.
    """
    try:
        return HybridPublicKey(decode_base64(text, what=what))
    except ValueError as error:
        raise Malformed(f"{what}: expected a public key of ML-KEM-768 and X25519: {error}") from None
    except UnsupportedAlgorithm as error:
        raise Unsupported(f"{what}: this machine's OpenSSL has no ML-KEM-768 ({error})") from None
