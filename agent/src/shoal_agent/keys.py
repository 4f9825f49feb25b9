"""Which three private keys make a board a device of its own, and where are they kept?

identity (P-256) signs reports and batches, tls (P-256) proves the device to broker and listener, hpke (X25519) opens
grants. They are files of mode 0600, made once and never sent anywhere.
"""

from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, x25519

from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files

IDENTITY = Path("keys") / "identity.pem"
TLS = Path("keys") / "tls.pem"
HPKE = Path("keys") / "hpke.pem"

_Key = ec.EllipticCurvePrivateKey | x25519.X25519PrivateKey


class DeviceKeys(NamedTuple):
    """A device's private keys."""

    identity: ec.EllipticCurvePrivateKey
    tls: ec.EllipticCurvePrivateKey
    hpke: x25519.X25519PrivateKey


def make_missing_keys(files: Files, state: Path) -> DeviceKeys:
    """The keys of a state folder; those that are missing are made and are on the disk when this returns.

    Raises:
        StateDamaged: one that is there can't be read.
    """
    for path in (IDENTITY, TLS, HPKE):
        if not files.size(state / path):
            key: _Key = x25519.X25519PrivateKey.generate() if path == HPKE else ec.generate_private_key(ec.SECP256R1())
            files.write(state / path, _write_pem(key))
    return load_keys(files, state)


def load_keys(files: Files, state: Path) -> DeviceKeys:
    """The keys of an enrolled device.

    Raises:
        StateDamaged: one is missing, or is a key of another kind.
    """
    identity, tls, hpke = (_load(files, state / path) for path in (IDENTITY, TLS, HPKE))
    if not isinstance(hpke, x25519.X25519PrivateKey):
        raise StateDamaged(f"{state / HPKE}: expected an X25519 key, found {type(hpke).__name__}")
    for path, key in ((IDENTITY, identity), (TLS, tls)):
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise StateDamaged(f"{state / path}: expected a P-256 key, found {type(key).__name__}")
    assert isinstance(identity, ec.EllipticCurvePrivateKey)
    assert isinstance(tls, ec.EllipticCurvePrivateKey)
    return DeviceKeys(identity, tls, hpke)


def _write_pem(key: _Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _load(files: Files, path: Path) -> object:
    try:
        return serialization.load_pem_private_key(files.read(path), password=None)
    except FileNotFoundError:
        raise StateDamaged(f"{path}: expected a private key, found no file") from None
    except (ValueError, TypeError) as error:
        raise StateDamaged(f"{path}: not a private key in PEM: {error}") from None
