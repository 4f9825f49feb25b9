"""How does a content key reach one reader and no other?

HPKE (RFC 9180, base mode), HKDF-SHA256, AES-256-GCM, with one of two KEMs: DHKEM(X25519, HKDF-SHA256), or the hybrid of
ML-KEM-768 and X25519 (`hybrid_key`) for a recipient that has offered such a key. Base mode tells nothing of the sender,
so a grant travels inside something signed. `info` binds it to release, file, recipient and grant counter: a grant that
is moved to another place doesn't open.
"""

import base64
from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import x25519

from shoal_wire.encoding import Bytes64, Counter, Identifier, ModelName, Sha256, Version, canonical, decode_base64
from shoal_wire.errors import Malformed, Unsupported, Untrusted
from shoal_wire.hybrid_key import HybridPrivateKey, HybridPublicKey
from shoal_wire.sealed_file import KEY_BYTES

FLEET = "fleet"
"""Recipient of the grant with which a publisher hands a content key to the fleet. No device gets this id."""

X25519 = "x25519"
MLKEM768_X25519 = "mlkem768-x25519"

_ANY_PRIVATE_KEY = x25519.X25519PrivateKey.from_private_bytes(bytes(31) + b"\1")
_SUITES: Mapping[str, hpke.Suite] = {
    X25519: hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM),
    MLKEM768_X25519: hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM),
}


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """A content key sealed to one recipient."""

    ciphertext_sha256: Sha256
    counter: Counter
    """Grows with each grant for the same recipient and file, so that an old one is told from a new one."""
    sealed_key: Bytes64
    suite: Identifier = X25519
    """KEM of the seal. Left out for X25519, which alone was known at first."""


class RecipientKeys(NamedTuple):
    """The private keys with which one recipient opens grants."""

    x25519: x25519.X25519PrivateKey
    hybrid: HybridPrivateKey | None = None
    """None where the recipient never offered such a key."""


class GrantContext(msgspec.Struct, frozen=True):
    """Where a grant is valid."""

    release: ModelName
    version: Version
    recipient: str


def make_grant(
    content_key: bytes,
    recipient_key: x25519.X25519PublicKey | HybridPublicKey,
    *,
    context: GrantContext,
    ciphertext_sha256: str,
    counter: int,
) -> Grant:
    """Seal the content key of a file to a recipient, by the suite that its key is for."""
    info = _bind(context, ciphertext_sha256, counter)
    if isinstance(recipient_key, HybridPublicKey):
        suite, sealed = MLKEM768_X25519, _SUITES[MLKEM768_X25519].encrypt(content_key, recipient_key.key, info=info)
    else:
        suite, sealed = X25519, _SUITES[X25519].encrypt(content_key, recipient_key, info=info)
    return Grant(ciphertext_sha256, counter, base64.b64encode(sealed).decode(), suite)


def open_grant(grant: Grant, keys: RecipientKeys, *, context: GrantContext) -> bytes:
    """The content key, 32 bytes.

    Raises:
        Malformed: not base64, or the key has another length.
        Unsupported: by a suite that isn't known, or for which this recipient has no key.
        Untrusted: sealed to another recipient, or for another release, file or counter.
    """
    what = f"grant for file {grant.ciphertext_sha256[:12]} of {context.release} {context.version}"
    hybrid = None if keys.hybrid is None else keys.hybrid.key
    private = {X25519: keys.x25519, MLKEM768_X25519: hybrid}.get(grant.suite)
    if private is None:
        raise Unsupported(f"{what}: sealed by {grant.suite}, for which {context.recipient} has no key")
    sealed = decode_base64(grant.sealed_key, what=what)
    try:
        info = _bind(context, grant.ciphertext_sha256, grant.counter)
        content_key = _SUITES[grant.suite].decrypt(sealed, private, info=info)
    except (InvalidTag, ValueError):
        raise Untrusted(f"{what}: not sealed to {context.recipient} for this release and file") from None
    if len(content_key) != KEY_BYTES:
        raise Malformed(f"{what}: a key of {len(content_key)} bytes, expected {KEY_BYTES}")
    return content_key


def hpke_public_text(key: x25519.X25519PublicKey) -> str:
    """An X25519 key as base64 text of its 32 bytes."""
    return base64.b64encode(key.public_bytes_raw()).decode()


def parse_hpke_public(text: str, *, what: str) -> x25519.X25519PublicKey:
    """Read a key from `hpke_public_text`.

    Raises:
        Malformed: not 32 bytes in base64, or one of the few points with which nothing can be sealed.
    """
    encoded = decode_base64(text, what=what)
    try:
        key = x25519.X25519PublicKey.from_public_bytes(encoded)
        # Refuses points of low order (RFC 7748, section 6.1) here, not when a rollout first seals to such a device.
        _ANY_PRIVATE_KEY.exchange(key)
    except ValueError as error:
        raise Malformed(f"{what}: expected an X25519 public key: {error}") from None
    return key


def _bind(context: GrantContext, ciphertext_sha256: str, counter: int) -> bytes:
    return canonical(
        ["shoal/grant/v1", context.release, context.version, ciphertext_sha256, context.recipient, counter]
    )
