"""Who signed these bytes, and were they meant as what they are taken for?

Dead Simple Signing Envelope (DSSE 1.0): the signature covers payload type and payload bytes, so that a document of one
kind can't pass for another. Callers verify the received bytes first and parse them afterwards.
"""

import base64
import hashlib
from collections.abc import Iterable
from typing import Annotated, Protocol

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from msgspec import Meta

from shoal_wire.encoding import MAX_DOCUMENT_BYTES, Bytes64, Sha256, decode_base64, decode_struct
from shoal_wire.errors import Malformed, Untrusted

PrivateKey = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey
PublicKey = ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey

DESIRED = "application/vnd.shoal.desired.v1+json"
REPORTED = "application/vnd.shoal.reported.v1+json"
BATCH = "application/vnd.shoal.batch.v1+json"
ACK = "application/vnd.shoal.ack.v1+json"
ENROLMENT = "application/vnd.shoal.enrolment.v1+json"
RENEWAL = "application/vnd.shoal.renewal.v1+json"
AUDIT_CHECKPOINT = "application/vnd.shoal.audit-checkpoint.v1+json"


class _Signature(msgspec.Struct, frozen=True):
    keyid: Sha256
    sig: Bytes64


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    payload_type: Annotated[str, Meta(max_length=200)]
    payload: str
    signatures: Annotated[tuple[_Signature, ...], Meta(min_length=1, max_length=16)]


class Signer(Protocol):
    """A private key that may live in a file, a TPM or a token."""

    @property
    def key_id(self) -> str:
        """SHA-256 of the public key, in hex."""

    def sign(self, data: bytes) -> bytes:
        """Signature of `data`."""


class KeySigner:
    """Signs with a private key that is in memory: Ed25519, or ECDSA over P-256 with SHA-256."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.key_id = key_id(key.public_key())

    def sign(self, data: bytes) -> bytes:
        """Signature of `data`; ECDSA's in DER."""
        if isinstance(self._key, ed25519.Ed25519PrivateKey):
            return self._key.sign(data)
        return self._key.sign(data, ec.ECDSA(hashes.SHA256()))


def key_id(key: PublicKey) -> str:
    """SHA-256 of the key's SubjectPublicKeyInfo in DER, in hex."""
    return hashlib.sha256(public_bytes(key)).hexdigest()


def public_bytes(key: PublicKey) -> bytes:
    """SubjectPublicKeyInfo in DER."""
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def public_text(key: PublicKey) -> str:
    """The key as base64 text, as messages and metadata carry it."""
    return base64.b64encode(public_bytes(key)).decode()


def parse_public_key(text: str, *, what: str) -> PublicKey:
    """Read a key from `public_text`.

    Raises:
        Malformed: no key, or one of another kind than Ed25519 and P-256.
    """
    encoded = decode_base64(text, what=what)
    try:
        key = serialization.load_der_public_key(encoded)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Malformed(f"{what}: not a public key: {error}") from None
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return key
    raise Malformed(f"{what}: expected an Ed25519 or P-256 public key, found {type(key).__name__}")


def seal(payload: bytes, payload_type: str, signer: Signer) -> bytes:
    """Sign `payload` as a document of that type; returns the envelope."""
    signature = signer.sign(_encode_for_signing(payload_type, payload))
    return msgspec.json.encode(
        _Envelope(
            payload_type=payload_type,
            payload=base64.b64encode(payload).decode(),
            signatures=(_Signature(keyid=signer.key_id, sig=base64.b64encode(signature).decode()),),
        )
    )


def verify(
    raw: bytes, payload_type: str, keys: Iterable[PublicKey], *, what: str, limit_bytes: int = MAX_DOCUMENT_BYTES
) -> bytes:
    """The payload of an envelope that one of `keys` signed as a document of that type.

    Raises:
        Malformed: no envelope, or too long (`limit_bytes` is that of the payload).
        Untrusted: of another type, signed by none of the keys, or changed since.
    """
    envelope = decode_struct(raw, _Envelope, what=what, limit_bytes=limit_bytes * 4 // 3 + 8192)
    if envelope.payload_type != payload_type:
        raise Untrusted(f"{what}: expected a document of type {payload_type}, found {envelope.payload_type!r}")
    payload = decode_base64(envelope.payload, what=what)
    if len(payload) > limit_bytes:
        raise Malformed(f"{what}: {len(payload)} bytes, expected at most {limit_bytes}")
    by_id = {key_id(key): key for key in keys}
    for signature in envelope.signatures:
        key = by_id.get(signature.keyid)
        if key is not None:
            _verify_one(key, decode_base64(signature.sig, what=what), _encode_for_signing(payload_type, payload), what)
            return payload
    found = ", ".join(signature.keyid[:12] for signature in envelope.signatures)
    raise Untrusted(f"{what}: expected a signature by {_names(by_id)}, found one by {found}")


def signing_key_ids(raw: bytes, *, what: str) -> tuple[str, ...]:
    """Which keys an envelope claims, without verifying: a hint for whether newer keys must be fetched first.

    Raises:
        Malformed: no envelope.
    """
    envelope = decode_struct(raw, _Envelope, what=what, limit_bytes=2 * MAX_DOCUMENT_BYTES)
    return tuple(signature.keyid for signature in envelope.signatures)


def _verify_one(key: PublicKey, signature: bytes, data: bytes, what: str) -> None:
    try:
        if isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(signature, data)
        else:
            key.verify(signature, data, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise Untrusted(f"{what}: the signature by {key_id(key)[:12]} doesn't fit: the bytes were changed") from None


def _encode_for_signing(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding (PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def _names(by_id: dict[str, PublicKey]) -> str:
    return " or ".join(sorted(name[:12] for name in by_id)) or "no key at all (none is trusted yet)"
