"""What does the fleet sign itself, and when is it due?

Snapshot and timestamp, after The Update Framework 1.0: which metadata is the present one, and that it is so today.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner, SSlibKey
from shoal_wire.metadata import SIGNED_AT
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, Timestamp

from shoal_fleet.trust.metadata import keys_of

SNAPSHOT_LIFETIME = timedelta(days=7)
TIMESTAMP_LIFETIME = timedelta(days=1)

_SignedT = TypeVar("_SignedT", Snapshot, Timestamp)


class Signing(Protocol):
    """The fleet's keys for that."""

    @property
    def snapshot(self) -> Ed25519PrivateKey: ...

    @property
    def timestamp(self) -> Ed25519PrivateKey: ...


def sign_snapshot(*, versions: Mapping[str, int], version: int, root: Root, keys: Signing, now: float) -> bytes:
    """Snapshot metadata: the present version of targets and of each bin, by role.

    A bin that is no longer delegated stays listed: clients refuse a snapshot that forgets one.
    """
    content = Snapshot(
        version=version,
        expires=_expiry(now, SNAPSHOT_LIFETIME),
        meta={f"{role}.json": MetaFile(version=number) for role, number in sorted(versions.items())},
        unrecognized_fields={SIGNED_AT: int(now)},
    )
    return _sign(content, "snapshot", keys.snapshot, root)


def sign_timestamp(
    *, snapshot: bytes, snapshot_version: int, version: int, root: Root, keys: Signing, now: float
) -> bytes:
    """Timestamp metadata: which snapshot is the present one, and that it is so today."""
    content = Timestamp(
        version=version,
        expires=_expiry(now, TIMESTAMP_LIFETIME),
        snapshot_meta=MetaFile.from_data(snapshot_version, snapshot, ["sha256"]),
        unrecognized_fields={SIGNED_AT: int(now)},
    )
    return _sign(content, "timestamp", keys.timestamp, root)


def snapshot_is_due(raw: bytes, *, now: float) -> bool:
    """Whether less than a third of its time is left."""
    return _is_due(Metadata[Snapshot].from_bytes(raw).signed.expires, SNAPSHOT_LIFETIME, now)


def timestamp_is_due(raw: bytes, *, now: float) -> bool:
    """Whether less than a third of its time is left."""
    return _is_due(Metadata[Timestamp].from_bytes(raw).signed.expires, TIMESTAMP_LIFETIME, now)


def _sign(content: _SignedT, role: str, key: Ed25519PrivateKey, root: Root) -> bytes:
    public = keys_of(root, role)[0]
    assert isinstance(public, SSlibKey)  # rules.check_own_keys: it is the fleet's own Ed25519 key
    metadata = Metadata(content)
    metadata.sign(CryptoSigner(key, public))
    return metadata.to_bytes()


def _expiry(now: float, lifetime: timedelta) -> datetime:
    return (datetime.fromtimestamp(now, UTC) + lifetime).replace(microsecond=0)


def _is_due(expires: datetime, lifetime: timedelta, now: float) -> bool:
    return expires - datetime.fromtimestamp(now, UTC) < lifetime / 3
