"""How are the keys replaced with which the fleet signs: snapshot, timestamp and assignment?

All are rows, wrapped by the vault. `make_next` puts new ones beside those in use. They count once the publisher's root
and assignment keys name them; then they take the place of the old ones, in one transaction.
"""

from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shoal_wire.envelope import KeySigner, public_text
from sqlalchemy.orm import Session

from shoal_fleet.kek.service import list_secret_keys, move_secret_key, read_or_make_secret_key, read_secret_key
from shoal_fleet.kek.vault import Vault

NAMES = ("snapshot", "timestamp", "assignment")


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


def open_signing_key(session: Session, name: str, *, vault: Vault, now: float) -> Ed25519PrivateKey:
    """The signing key of that name; made first where there is none, in the caller's transaction that writes.

    Raises:
        BrokenState, Conflict: as `read_or_make_secret_key`.
    """
    raw = read_or_make_secret_key(session, name, _generate, vault=vault, now=now)
    return Ed25519PrivateKey.from_private_bytes(raw)


def make_next(session: Session, *, vault: Vault, now: float) -> SigningKeys:
    """Make keys to follow those in use, unless there are some already, in the caller's transaction that writes.

    Raises:
        BrokenState, Conflict: as `read_or_make_secret_key`.
    """
    there = find_next(session, vault=vault)
    if there is not None:
        return there
    return SigningKeys(*(open_signing_key(session, next_name(name), vault=vault, now=now) for name in NAMES))


def find_next(session: Session, *, vault: Vault) -> SigningKeys | None:
    """The keys that are to follow; None where there are none.

    An earlier version moved them one by one: of those that it had moved when power went, what they are now.

    Raises:
        BrokenState: a row doesn't open.
    """
    names = list_secret_keys(session)
    if not any(next_name(name) in names for name in NAMES):
        return None
    found = (
        read_secret_key(session, next_name(name) if next_name(name) in names else name, vault=vault) for name in NAMES
    )
    return SigningKeys(*(Ed25519PrivateKey.from_private_bytes(raw) for raw in found if raw is not None))


def move_next(session: Session, *, vault: Vault) -> None:
    """Put the next keys in the place of the old ones, which are gone then. In the caller's transaction that writes.

    Raises:
        BrokenState: a row doesn't open.
    """
    names = list_secret_keys(session)
    for name in NAMES:
        if next_name(name) in names:
            move_secret_key(session, next_name(name), to=name, vault=vault)


def next_name(name: str) -> str:
    """Name of the row with the key that is to follow the one of that name."""
    return f"next-{name}"


def _generate() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes_raw()
