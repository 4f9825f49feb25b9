"""Which private keys make a board a device of its own, and where are they kept?

identity (P-256) signs reports and batches, tls (P-256) proves the device to broker and listener, hpke (X25519) opens
grants, and so does hybrid (ML-KEM-768 with X25519) on a board that was enrolled with one. They are files of mode 0600,
made once and never sent anywhere; identity may be in a token or a TPM instead (`pkcs11_key.py`).
"""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from shoal_wire.encoding import decode_base64
from shoal_wire.errors import Malformed
from shoal_wire.grant import RecipientKeys
from shoal_wire.hybrid_key import HybridPrivateKey

from shoal_agent.errors import StateDamaged, WrongConfiguration
from shoal_agent.files import Files
from shoal_agent.pkcs11_uri import parse_key_uri

if TYPE_CHECKING:
    from shoal_agent.pkcs11_key import TokenKey

IDENTITY = Path("keys") / "identity.pem"
TLS = Path("keys") / "tls.pem"
IDENTITY_URI = Path("keys") / "identity.uri"
"""In place of IDENTITY where the key is in a token or TPM: which one it is."""
PAIR = Path("keys") / "tls-pair.pem"
"""A renewed key of TLS with its certificate: counts before TLS and the certificate of enrolment."""
NEXT_TLS = Path("keys") / "tls-next.pem"
"""The key that the next certificate is for, until that has come."""
HPKE = Path("keys") / "hpke.pem"
HYBRID = Path("keys") / "hpke-hybrid.key"
"""Base64 of the bytes of a `HybridPrivateKey`: no PEM is agreed for such a pair."""

_Key = ec.EllipticCurvePrivateKey | x25519.X25519PrivateKey


class DeviceKeys(NamedTuple):
    """A device's private keys."""

    identity: ec.EllipticCurvePrivateKey
    tls: ec.EllipticCurvePrivateKey
    hpke: x25519.X25519PrivateKey
    hybrid: HybridPrivateKey | None = None

    @property
    def recipient(self) -> RecipientKeys:
        """What opens grants."""
        return RecipientKeys(self.hpke, self.hybrid)


def make_missing_keys(files: Files, state: Path, *, with_hybrid: bool = False) -> DeviceKeys:
    """The keys of a state folder; those that are missing are made and are on the disk when this returns.

    Raises:
        StateDamaged: one that is there can't be read.
        Unsupported: a hybrid key is wanted, and this machine can't make one.
    """
    if with_hybrid and not files.size(state / HYBRID):
        files.write(state / HYBRID, base64.b64encode(HybridPrivateKey.generate().raw) + b"\n")
    in_token = bool(files.size(state / IDENTITY_URI))
    for path in (TLS, HPKE) if in_token else (IDENTITY, TLS, HPKE):
        if not files.size(state / path):
            key: _Key = x25519.X25519PrivateKey.generate() if path == HPKE else ec.generate_private_key(ec.SECP256R1())
            files.write(state / path, _write_pem(key))
    return load_keys(files, state)


def load_keys(files: Files, state: Path) -> DeviceKeys:
    """The keys of an enrolled device.

    Raises:
        StateDamaged: one is missing, or is a key of another kind.
    """
    tls, hpke = (_load(files, state / path) for path in (TLS, HPKE))
    identity = _load_identity(files, state)
    if not isinstance(hpke, x25519.X25519PrivateKey):
        raise StateDamaged(f"{state / HPKE}: expected an X25519 key, found {type(hpke).__name__}")
    for path, key in ((IDENTITY, identity), (TLS, tls)):
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise StateDamaged(f"{state / path}: expected a P-256 key, found {type(key).__name__}")
    assert isinstance(identity, ec.EllipticCurvePrivateKey)
    assert isinstance(tls, ec.EllipticCurvePrivateKey)
    return DeviceKeys(identity, tls, hpke, _load_hybrid(files, state / HYBRID))


def _write_pem(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def keep_identity_in_token(files: Files, state: Path, uri: str) -> None:
    """Have the identity key be the one that a URI names, which is made in its token unless it is there.

    Raises:
        WrongConfiguration: no such URI, or the extra that speaks to tokens isn't installed.
        IdentityUnavailable: the token isn't there, or refuses.
        StateDamaged: the device has an identity key already, and it is another.
    """
    known = files.read(state / IDENTITY_URI).decode() if files.size(state / IDENTITY_URI) else ""
    if known not in ("", uri) or files.size(state / IDENTITY):
        raise StateDamaged(f"{state}: has another identity key already; a new device needs an empty state folder")
    _token_key(uri).make_if_missing()
    files.write(state / IDENTITY_URI, uri.encode())


def make_tls_key(files: Files, path: Path) -> ec.EllipticCurvePrivateKey:
    """A new P-256 key, on the disk at `path` when this returns."""
    key = ec.generate_private_key(ec.SECP256R1())
    files.write(path, _write_pem(key))
    return key


def load_tls_key(files: Files, path: Path) -> ec.EllipticCurvePrivateKey | None:
    """A P-256 key that was written there; None where there is none that can be read."""
    try:
        key = _load(files, path)
    except StateDamaged:
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _load_identity(files: Files, state: Path) -> object:
    if files.size(state / IDENTITY_URI):
        return _token_key(files.read(state / IDENTITY_URI).decode("utf-8", "replace"))
    return _load(files, state / IDENTITY)


def _token_key(text: str) -> "TokenKey":
    uri = parse_key_uri(text)
    try:
        from shoal_agent.pkcs11_key import TokenKey
    except ImportError:
        raise WrongConfiguration(
            "identity key: nothing here speaks to tokens; install the extra shoal-agent[pkcs11]"
        ) from None
    return TokenKey(uri)


def _load_hybrid(files: Files, path: Path) -> HybridPrivateKey | None:
    try:
        return HybridPrivateKey(decode_base64(files.read(path).decode("ascii", "replace").strip(), what=str(path)))
    except FileNotFoundError:
        return None
    except (Malformed, ValueError) as error:
        raise StateDamaged(f"{path}: not a hybrid key: {error}") from None


def _load(files: Files, path: Path) -> object:
    try:
        return serialization.load_pem_private_key(files.read(path), password=None)
    except FileNotFoundError:
        raise StateDamaged(f"{path}: expected a private key, found no file") from None
    except (ValueError, TypeError) as error:
        raise StateDamaged(f"{path}: not a private key in PEM: {error}") from None
