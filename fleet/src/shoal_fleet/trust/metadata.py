"""How is signed metadata (TUF) read, and who must have signed it?"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from securesystemslib.signer import Key, Signature
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.metadata import read_signed_at
from tuf.api.exceptions import UnsignedMetadataError
from tuf.api.metadata import Metadata, Role, Root, Snapshot, Targets, Timestamp
from tuf.api.serialization import DeserializationError, SerializationError

from shoal_fleet.errors import Refused, TooLarge

MAX_ROOT_BYTES = 192 << 10
"""In base64 it still fits an enrolment response."""
MAX_TARGETS_BYTES = 5_000_000
"""python-tuf's clients read no more."""

CLOCKS_DIFFER_S = 3600.0
"""By how much the clock of a publisher's machine may run ahead of this one's."""

SignedT = TypeVar("SignedT", Root, Targets, Snapshot, Timestamp)

_LIMITS: dict[type, int] = {Root: MAX_ROOT_BYTES}


class Delegator(Protocol):
    """Root metadata for the four roles, targets metadata for the bins."""

    def get_delegated_role(self, delegated_role: str) -> Role:
        """Keys and threshold of a role."""

    def verify_delegate(self, delegated_role: str, payload: bytes, signatures: dict[str, Signature]) -> None:
        """Raises UnsignedMetadataError."""


def parse(raw: bytes, kind: type[SignedT], *, what: str) -> Metadata[SignedT]:
    """Metadata of a role, its signatures not yet looked at.

    Raises:
        TooLarge, Malformed: it isn't that.
    """
    limit_bytes = _LIMITS.get(kind, MAX_TARGETS_BYTES)
    if len(raw) > limit_bytes:
        raise TooLarge(f"{what}: expected at most {limit_bytes} bytes, found {len(raw)}")
    try:
        metadata: Metadata[SignedT] = Metadata.from_bytes(raw)
        metadata.signed_bytes  # noqa: B018 (what can be read may still have no canonical form to be verified)
    except (DeserializationError, SerializationError, RecursionError) as error:
        raise Malformed(f"{what}: not TUF metadata: {error}") from None
    if not isinstance(metadata.signed, kind):
        raise Malformed(f"{what}: found metadata of the role {metadata.signed.type}")
    return metadata


def verify(delegator: Delegator, metadata: Metadata[SignedT], *, role: str, what: str) -> None:
    """Make sure that enough of the keys of the role have signed.

    Raises:
        Untrusted: they haven't; says whose signatures there are and whose there should be.
    """
    try:
        delegator.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except UnsignedMetadataError:
        expected = delegator.get_delegated_role(role)
        raise Untrusted(
            f"{what}: expected signatures by {expected.threshold} of the keys {_names(expected.keyids)}, found "
            f"{_names(metadata.signatures) or 'none'} (one of them may be of other bytes)"
        ) from None


def check_time(signed: Root | Targets, *, what: str, now: float) -> None:
    """Raises Refused: it has expired, or says that it was signed later than now.

    Boards judge expiry by the newest time that was signed: one that lies ahead would end their updates until then.
    """
    signed_at = read_signed_at(signed.unrecognized_fields)
    if signed_at is not None and signed_at > now + CLOCKS_DIFFER_S:
        raise Refused(
            f"{what}: was signed at {datetime.fromtimestamp(signed_at, UTC):%Y-%m-%d %H:%M:%S} UTC, later than now, "
            f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC: set the clock there, or here, and sign it anew"
        )
    if signed.is_expired(datetime.fromtimestamp(now, UTC)):
        raise Refused(f"{what}: expired at {signed.expires:%Y-%m-%d %H:%M:%S} UTC; `shoal keys refresh` signs it anew")


def keys_of(root: Root, role: str) -> list[Key]:
    """Keys of a role.

    Raises:
        Refused: root names a key that isn't in it.
    """
    missing = [keyid for keyid in root.roles[role].keyids if keyid not in root.keys]
    if missing:
        raise Refused(f"root metadata: the role {role} names the key {str(missing[0])[:12]}, which isn't in it")
    return [root.keys[keyid] for keyid in root.roles[role].keyids]


def value_of(key: Key) -> tuple[str, str, str]:
    """What makes two keys the same, whatever their ids."""
    return key.keytype, key.scheme, str(key.keyval.get("public"))


def _names(key_ids: Iterable[str]) -> str:
    return ", ".join(sorted(str(key_id)[:12] for key_id in key_ids))
