"""How are the keys replaced with which the fleet signs: snapshot, timestamp and assignment?

`make_next` puts new ones beside those in use, in the folder `next`. They count once the publisher's root and assignment
keys name them; then each file takes the place of the old one, and a start that finds some moved goes on with the rest.
"""

from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from shoal_wire.envelope import KeySigner, public_text

from shoal_fleet.errors import BrokenState
from shoal_fleet.pki.files import make_private_folder, write_whole

NAMES = ("snapshot", "timestamp", "assignment")

_NEXT = "next"


class SigningKeys(NamedTuple):
    """The three private keys."""

    snapshot: Ed25519PrivateKey
    timestamp: Ed25519PrivateKey
    assignment: Ed25519PrivateKey

    def public(self) -> dict[str, str]:
        """Their public halves by name, as `envelope.public_text` writes them."""
        return {name: public_text(key.public_key()) for name, key in self._asdict().items()}


class AssignmentSigner:
    """Signs with the assignment key that counts now, which may be replaced while the fleet runs."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._signer = KeySigner(key)

    @property
    def key_id(self) -> str:
        """SHA-256 of the public key, in hex."""
        return self._signer.key_id

    def sign(self, data: bytes) -> bytes:
        """Signature of `data`."""
        return self._signer.sign(data)

    def replace(self, key: Ed25519PrivateKey) -> None:
        """Sign with that key from now on."""
        self._signer = KeySigner(key)


def load_signing_key(path: Path) -> Ed25519PrivateKey:
    """The key in a file; made first where there is none.

    Raises:
        BrokenState: the file holds none.
    """
    if not path.exists():
        made = Ed25519PrivateKey.generate()
        write_whole(path, made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise BrokenState(f"{path}: expected a private key in PEM, found none ({error})") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BrokenState(f"{path}: expected an Ed25519 key, found {type(key).__name__}")
    return key


def make_next(folder: Path) -> SigningKeys:
    """Make keys to follow those in `folder`, unless there are some already. On disk when this returns.

    Raises:
        BrokenState: a file holds no key.
    """
    make_private_folder(folder / _NEXT)
    return SigningKeys(*(load_signing_key(folder / _NEXT / f"{name}.pem") for name in NAMES))


def find_next(folder: Path) -> SigningKeys | None:
    """The keys that are to follow; None where there are none. Of those that were moved already, what they are now.

    Raises:
        BrokenState: a file holds no key.
    """
    waiting = [folder / _NEXT / f"{name}.pem" for name in NAMES]
    if not any(path.exists() for path in waiting):
        return None
    return SigningKeys(*(load_signing_key(path if path.exists() else folder / path.name) for path in waiting))


def move_next(folder: Path) -> None:
    """Put the next keys in the place of the old ones, which are gone from the disk when this returns."""
    for name in NAMES:
        path = folder / _NEXT / f"{name}.pem"
        if path.exists():
            write_whole(folder / path.name, path.read_bytes())
            path.unlink()
