"""Which keys does the fleet hold online, and how do they come to disk?

None of them can sign a release. `snapshot` and `timestamp` keep TUF metadata fresh, `assignment` signs desired
documents and acknowledgements, `hpke` and `hybrid` open the content keys that a publisher hands over. All are in the
database, wrapped by the `vault`, which wraps the content keys too.
"""

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from shoal_wire.envelope import public_text
from shoal_wire.grant import RecipientKeys, hpke_public_text
from shoal_wire.hybrid_key import HybridPrivateKey, hybrid_public_text
from sqlalchemy.orm import Session

from shoal_fleet.database import writing
from shoal_fleet.kek.service import read_or_make_secret_key
from shoal_fleet.kek.vault import Vault
from shoal_fleet.signing_keys import NAMES, AssignmentSigner, SigningKeys, find_next, move_next, open_signing_key

HPKE = "hpke"
"""Name of its row."""

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
    ) -> None:
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
    def load_or_create(cls, session: Session, *, vault: Vault, now: float) -> "OnlineKeys":
        """Read the keys; one that isn't there is made first, in the caller's transaction that writes.

        Raises:
            BrokenState: a row doesn't open.
            Conflict: the wrapping key was changed since the vault was opened.
        """
        hybrid = HybridPrivateKey(read_or_make_secret_key(session, _HYBRID, _new_hybrid, vault=vault, now=now))
        hpke = read_or_make_secret_key(session, HPKE, _new_hpke, vault=vault, now=now)
        signing = SigningKeys(*(open_signing_key(session, name, vault=vault, now=now) for name in NAMES))
        return cls(
            snapshot=signing.snapshot,
            timestamp=signing.timestamp,
            assignment=signing.assignment,
            recipient=RecipientKeys(X25519PrivateKey.from_private_bytes(hpke), hybrid),
            hybrid=hybrid,
            vault=vault,
        )

    def find_next(self, session: Session) -> tuple[SigningKeys, FleetKeys] | None:
        """Keys that are to follow those that sign, and what is public with them; None where there are none.

        Raises:
            BrokenState: a row doesn't open.
        """
        coming = find_next(session, vault=self.vault)
        return None if coming is None else (coming, msgspec.structs.replace(self.public, **coming.public()))

    def take_up_next(self, session: Session) -> None:
        """Sign with the keys of `find_next` from now on, once they are committed in the place of the old ones.

        The session must not be in a transaction.

        Raises:
            BrokenState: a row doesn't open.
        """
        with writing(session):
            found = self.find_next(session)
            move_next(session, vault=self.vault)
        if found is None:
            return
        keys, public = found
        self.snapshot, self.timestamp, self.public = keys.snapshot, keys.timestamp, public
        self.assignment.replace(keys.assignment)


def _new_hybrid() -> bytes:
    return HybridPrivateKey.generate().raw


def _new_hpke() -> bytes:
    return X25519PrivateKey.generate().private_bytes_raw()
