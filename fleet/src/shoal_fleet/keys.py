"""Which keys does the fleet hold online, and how do they come to disk?

None of them can sign a release. `snapshot` and `timestamp` keep TUF metadata fresh, `assignment` signs desired
documents and acknowledgements, `hpke` opens the content keys that a publisher hands over. They are plain files that
only the fleet's user may read: who copies that folder has them.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from shoal_wire.envelope import KeySigner, public_text
from shoal_wire.grant import hpke_public_text

from shoal_fleet.errors import BrokenState
from shoal_fleet.pki.files import make_private_folder, write_whole

_Made = Ed25519PrivateKey | X25519PrivateKey


class FleetKeys(msgspec.Struct, frozen=True):
    """The public halves: Ed25519 as `envelope.public_text` writes it, X25519 as `grant.hpke_public_text` does."""

    snapshot: str
    timestamp: str
    assignment: str
    hpke: str


class OnlineKeys:
    """The private keys, in memory."""

    def __init__(
        self,
        *,
        snapshot: Ed25519PrivateKey,
        timestamp: Ed25519PrivateKey,
        assignment: Ed25519PrivateKey,
        hpke: X25519PrivateKey,
    ) -> None:
        self.snapshot = snapshot
        self.timestamp = timestamp
        self.assignment = KeySigner(assignment)
        self.hpke = hpke
        self.public = FleetKeys(
            snapshot=public_text(snapshot.public_key()),
            timestamp=public_text(timestamp.public_key()),
            assignment=public_text(assignment.public_key()),
            hpke=hpke_public_text(hpke.public_key()),
        )

    @classmethod
    def load_or_create(cls, folder: Path) -> "OnlineKeys":
        """Read the keys from `folder` (0700, files 0600); one that isn't there is made first and is then on disk.

        Raises:
            BrokenState: a file holds no key of its kind.
        """
        make_private_folder(folder)
        return cls(
            snapshot=_signing_key(folder / "snapshot.pem"),
            timestamp=_signing_key(folder / "timestamp.pem"),
            assignment=_signing_key(folder / "assignment.pem"),
            hpke=_sealing_key(folder / "hpke.pem"),
        )


def _signing_key(path: Path) -> Ed25519PrivateKey:
    key = _load_or_create(path, Ed25519PrivateKey.generate)
    if not isinstance(key, Ed25519PrivateKey):
        raise BrokenState(f"{path}: expected an Ed25519 key, found {type(key).__name__}")
    return key


def _sealing_key(path: Path) -> X25519PrivateKey:
    key = _load_or_create(path, X25519PrivateKey.generate)
    if not isinstance(key, X25519PrivateKey):
        raise BrokenState(f"{path}: expected an X25519 key, found {type(key).__name__}")
    return key


def _load_or_create(path: Path, generate: Callable[[], _Made]) -> PrivateKeyTypes:
    if not path.exists():
        made = generate()
        write_whole(path, made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return made
    try:
        return load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise BrokenState(f"{path}: expected a private key in PEM, found none ({error})") from None
