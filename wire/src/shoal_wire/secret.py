"""How does a secret of a device's configuration, such as a camera's password, reach that device and nobody else?

An operator's command seals it by HPKE (RFC 9180, base mode) to the device's X25519 key; the fleet passes it on in the
desired document and can't read it. `info` binds it to device, name and counter, so it opens at no other place. It is of
the length of its kind and not of its own: the plaintext is padded, as the length of a password says something of it.
"""

import base64
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric import x25519
from msgspec import Meta

from shoal_wire.encoding import Counter, Identifier, canonical, decode_base64
from shoal_wire.errors import Malformed, Untrusted

MAX_SECRET_BYTES = 1024
PADDED_BYTES = 128
"""A plaintext's length is a multiple of this, its two bytes of length included."""

_SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)
_LENGTH_BYTES = 2


class SealedSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret as it travels and as it lies on disk."""

    name: Identifier
    counter: Counter
    """Grows with each value of that name on that device."""
    sealed: Annotated[str, Meta(max_length=2048, pattern=r"^[A-Za-z0-9+/]*={0,2}\Z")]


def seal_secret(
    value: str, recipient_key: x25519.X25519PublicKey, *, device: str, name: str, counter: int
) -> SealedSecret:
    """Seal a text for one device.

    Raises:
        Malformed: empty, or longer than MAX_SECRET_BYTES in UTF-8.
    """
    raw = value.encode()
    if not 0 < len(raw) <= MAX_SECRET_BYTES:
        raise Malformed(f"secret {name}: expected 1 to {MAX_SECRET_BYTES} bytes, found {len(raw)}")
    padded = len(raw).to_bytes(_LENGTH_BYTES, "big") + raw
    padded += bytes(-len(padded) % PADDED_BYTES)
    sealed = _SUITE.encrypt(padded, recipient_key, info=_bind(device, name, counter))
    return SealedSecret(name=name, counter=counter, sealed=base64.b64encode(sealed).decode())


def open_secret(secret: SealedSecret, recipient_key: x25519.X25519PrivateKey, *, device: str) -> str:
    """The text. Keep it no longer than needed, and in memory only.

    Raises:
        Malformed: what was sealed is no padded text.
        Untrusted: sealed to another device, or under another name or counter.
    """
    what = f"secret {secret.name}"
    try:
        padded = _SUITE.decrypt(
            decode_base64(secret.sealed, what=what), recipient_key, info=_bind(device, secret.name, secret.counter)
        )
    except (InvalidTag, ValueError):
        raise Untrusted(f"{what}: not sealed to {device} under this name and counter") from None
    length = int.from_bytes(padded[:_LENGTH_BYTES], "big")
    try:
        text = padded[_LENGTH_BYTES : _LENGTH_BYTES + length].decode()
    except UnicodeDecodeError:
        raise Malformed(f"{what}: not UTF-8") from None
    if len(text.encode()) != length:
        raise Malformed(f"{what}: cut short")
    return text


def _bind(device: str, name: str, counter: int) -> bytes:
    return canonical(["shoal/secret/v1", device, name, counter])
