"""What does the fleet sign itself, and when is it due?

Snapshot and timestamp, after The Update Framework 1.0: which metadata is the present one, and that it is so today.

Boards judge expiry by the newest time that they saw signed. So a fleet whose clock ran ahead, and was set right, goes
on with the time that it signed last: what it signed by the right one would count as expired until then.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from securesystemslib.signer import CryptoSigner, SSlibKey
from shoal_wire.metadata import SIGNED_AT, read_signed_at
from tuf.api.exceptions import UnsignedMetadataError
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, Timestamp

from shoal_fleet.trust.metadata import CLOCKS_DIFFER_S, keys_of

SNAPSHOT_LIFETIME = timedelta(days=7)
TIMESTAMP_LIFETIME = timedelta(days=1)

_SignedT = TypeVar("_SignedT", Snapshot, Timestamp)


class Signing(Protocol):
    """The fleet's keys for that."""

    @property
    def snapshot(self) -> Ed25519PrivateKey: ...

    @property
    def timestamp(self) -> Ed25519PrivateKey: ...


class Dating(NamedTuple):
    """With what time to sign, in Unix seconds."""

    at: float
    trouble: str
    """What an operator must know of it; empty where all is well."""


def choose_time(*, now: float, newest_at: float, limit_at: float) -> Dating:
    """The later of this machine's clock and the newest time that was signed.

    `limit_at`: when what the publisher signed ends, up to which boards believe the fleet. A time beyond that is not
    gone on with: boards would take what the publisher signs next for expired as well.
    """
    ahead_s = newest_at - now
    if ahead_s <= 0:
        return Dating(now, "")
    if newest_at > max(limit_at, now + CLOCKS_DIFFER_S):
        return Dating(now, say_given_up(now=now, newest_at=newest_at))
    words = f"{_say_both(now=now, newest_at=newest_at)}: it signs with the later time until then"
    return Dating(newest_at, words if ahead_s > CLOCKS_DIFFER_S else "")


def say_given_up(*, now: float, newest_at: float) -> str:
    """What an operator must know of a time that was signed and isn't gone on with."""
    return (
        f"{_say_both(now=now, newest_at=newest_at)}: boards that saw it take everything for expired; once the clock is "
        "right, run `shoal-fleet keys rotate` here, then `shoal keys rotate --fleet`"
    )


def find_newest_time(root: Root, signed: Mapping[str, bytes]) -> float:
    """The newest time in metadata, by role, that keys signed which root still names; 0 where there is none."""
    times = (read_time(root, role, raw) for role, raw in signed.items())
    return max((at for at in times if at is not None), default=0.0)


def read_time(root: Root, role: str, raw: bytes) -> float | None:
    """The time in snapshot or timestamp metadata, 0 where it names none; None where root names its keys no more."""
    metadata: Metadata[Snapshot] | Metadata[Timestamp] = (
        Metadata[Snapshot].from_bytes(raw) if role == Snapshot.type else Metadata[Timestamp].from_bytes(raw)
    )
    try:
        root.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except UnsignedMetadataError:
        return None
    return read_signed_at(metadata.signed.unrecognized_fields) or 0.0


def sign_snapshot(*, versions: Mapping[str, int], version: int, root: Root, keys: Signing, at: float) -> bytes:
    """Snapshot metadata: the present version of targets and of each bin, by role.

    A bin that is no longer delegated stays listed: clients refuse a snapshot that forgets one.
    """
    content = Snapshot(
        version=version,
        expires=_expiry(at, SNAPSHOT_LIFETIME),
        meta={f"{role}.json": MetaFile(version=number) for role, number in sorted(versions.items())},
        unrecognized_fields={SIGNED_AT: int(at)},
    )
    return _sign(content, "snapshot", keys.snapshot, root)


def sign_timestamp(
    *, snapshot: bytes, snapshot_version: int, version: int, root: Root, keys: Signing, at: float
) -> bytes:
    """Timestamp metadata: which snapshot is the present one, and that it is so today."""
    content = Timestamp(
        version=version,
        expires=_expiry(at, TIMESTAMP_LIFETIME),
        snapshot_meta=MetaFile.from_data(snapshot_version, snapshot, ["sha256"]),
        unrecognized_fields={SIGNED_AT: int(at)},
    )
    return _sign(content, "timestamp", keys.timestamp, root)


def snapshot_is_due(raw: bytes, *, at: float) -> bool:
    """Whether less than a third of its time is left, or more than it ever has."""
    return _is_due(Metadata[Snapshot].from_bytes(raw).signed.expires, SNAPSHOT_LIFETIME, at)


def timestamp_is_due(raw: bytes, *, at: float) -> bool:
    """Whether less than a third of its time is left, or more than it ever has."""
    return _is_due(Metadata[Timestamp].from_bytes(raw).signed.expires, TIMESTAMP_LIFETIME, at)


def _sign(content: _SignedT, role: str, key: Ed25519PrivateKey, root: Root) -> bytes:
    public = keys_of(root, role)[0]
    assert isinstance(public, SSlibKey)  # rules.check_own_keys: it is the fleet's own Ed25519 key
    metadata = Metadata(content)
    metadata.sign(CryptoSigner(key, public))
    return metadata.to_bytes()


def _expiry(at: float, lifetime: timedelta) -> datetime:
    return (datetime.fromtimestamp(at, UTC) + lifetime).replace(microsecond=0)


def _is_due(expires: datetime, lifetime: timedelta, at: float) -> bool:
    left = expires - datetime.fromtimestamp(at, UTC)
    return not lifetime / 3 <= left <= lifetime


def _say_both(*, now: float, newest_at: float) -> str:
    return f"the fleet signed with the time {_say(newest_at)}, and its clock says {_say(now)}"


def _say(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
