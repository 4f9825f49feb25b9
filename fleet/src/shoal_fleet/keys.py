"""Which keys does the fleet hold online, and how do they come to disk?

None of them can sign a release. `snapshot` and `timestamp` keep TUF metadata fresh, `assignment` signs desired
documents and acknowledgements: plain files that only the fleet's user may read. `hpke` and `hybrid` open the content
keys that a publisher hands over; they are in the database, wrapped by the `vault`, which wraps the content keys too.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from shoal_wire.envelope import public_text
from shoal_wire.grant import RecipientKeys, hpke_public_text
from shoal_wire.hybrid_key import HybridPrivateKey, hybrid_public_text
from sqlalchemy.orm import Session

from shoal_fleet.errors import BrokenState
from shoal_fleet.kek.service import keep_secret_key, read_secret_key
from shoal_fleet.kek.vault import Vault
from shoal_fleet.pki.files import make_private_folder, sync_folder
from shoal_fleet.signing_keys import AssignmentSigner, SigningKeys, find_next, load_signing_key, move_next

PLAIN_HPKE_FILE = "hpke.pem"
"""Where fleets had their HPKE key in the clear before secrets were wrapped."""

_HPKE = "hpke"
_HYBRID = "hpke-hybrid"


class FleetKeys(msgspec.Struct, frozen=True):
    """The public halves: Ed25519 as `envelope.public_text` writes it, X25519 as `grant.hpke_public_text` does."""

    snapshot: str
    timestamp: str
    assignment: str
    hpke: str
    hybrid: str
    """As `hybrid_key.hybrid_public_text` writes it."""


class OnlineKeys:
    """The private keys, in memory."""

    def __init__(
        self,
        *,
        snapshot: Ed25519PrivateKey,
        timestamp: Ed25519PrivateKey,
        assignment: Ed25519PrivateKey,
        recipient: RecipientKeys,
        hybrid: HybridPrivateKey,
        vault: Vault,
        folder: Path | None = None,
    ) -> None:
        """`folder` is where those that sign came from, and where others may wait to follow them."""
        self._folder = folder
        self.snapshot = snapshot
        self.timestamp = timestamp
        self.assignment = AssignmentSigner(assignment)
        self.recipient = recipient
        self.vault = vault
        self.public = FleetKeys(
            snapshot=public_text(snapshot.public_key()),
            timestamp=public_text(timestamp.public_key()),
            assignment=public_text(assignment.public_key()),
            hpke=hpke_public_text(recipient.x25519.public_key()),
            hybrid=hybrid_public_text(hybrid.public_key()),
        )

    @classmethod
    def load_or_create(cls, folder: Path, session: Session, *, vault: Vault, now: float) -> "OnlineKeys":
        """Read the keys from `folder` (0700, files 0600) and the database; one that isn't there is made first.

        In the caller's transaction that writes. Call `forget_plain_key` once that is committed.

        Raises:
            BrokenState: a file or a row holds no key of its kind.
        """
        make_private_folder(folder)
        hybrid = HybridPrivateKey(_wrapped(session, _HYBRID, _new_hybrid, vault=vault, now=now))
        hpke = _wrapped(session, _HPKE, lambda: _plain_or_new_hpke(folder / PLAIN_HPKE_FILE), vault=vault, now=now)
        return cls(
            snapshot=load_signing_key(folder / "snapshot.pem"),
            timestamp=load_signing_key(folder / "timestamp.pem"),
            assignment=load_signing_key(folder / "assignment.pem"),
            recipient=RecipientKeys(X25519PrivateKey.from_private_bytes(hpke), hybrid),
            hybrid=hybrid,
            vault=vault,
            folder=folder,
        )

    def find_next(self) -> tuple[SigningKeys, FleetKeys] | None:
        """Keys that are to follow those that sign, and what is public with them; None where there are none.

        Raises:
            BrokenState: a file holds no key.
        """
        coming = None if self._folder is None else find_next(self._folder)
        return None if coming is None else (coming, msgspec.structs.replace(self.public, **coming.public()))

    def take_up_next(self) -> None:
        """Sign with the keys of `find_next` from now on; the old ones are gone from the disk when this returns."""
        found = self.find_next()
        if found is None or self._folder is None:
            return
        keys, public = found
        move_next(self._folder)
        self.snapshot, self.timestamp, self.public = keys.snapshot, keys.timestamp, public
        self.assignment.replace(keys.assignment)


def forget_plain_key(folder: Path) -> None:
    """Remove the HPKE key that an earlier version kept in the clear, once it is in the database, wrapped.

    It is overwritten first, which helps where the disk writes in place.
    """
    path = folder / PLAIN_HPKE_FILE
    if path.exists():
        with path.open("r+b", buffering=0) as file:
            file.write(bytes(path.stat().st_size))
        path.unlink()
        sync_folder(folder)


def _wrapped(session: Session, name: str, make: Callable[[], bytes], *, vault: Vault, now: float) -> bytes:
    kept = read_secret_key(session, name, vault=vault)
    if kept is None:
        kept = make()
        keep_secret_key(session, name, kept, vault=vault, now=now)
    return kept


def _new_hybrid() -> bytes:
    return HybridPrivateKey.generate().raw


def _plain_or_new_hpke(path: Path) -> bytes:
    if not path.exists():
        return X25519PrivateKey.generate().private_bytes_raw()
    key = _load(path)
    if not isinstance(key, X25519PrivateKey):
        raise BrokenState(f"{path}: expected an X25519 key, found {type(key).__name__}")
    return key.private_bytes_raw()


def _load(path: Path) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise BrokenState(f"{path}: expected a private key in PEM, found none ({error})") from None
