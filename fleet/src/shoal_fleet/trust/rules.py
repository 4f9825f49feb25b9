"""Which metadata of a publisher does the fleet accept, and what does it sign itself?

Rules over bytes, keys and a time; after The Update Framework 1.0. The publisher holds the keys of root and targets, the
fleet those of snapshot and timestamp. A fleet that also held a key of root or targets could forge a release, so such a
root is refused.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.signer import CryptoSigner, Key, SSlibKey
from shoal_wire.encoding import decode
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, AssignmentKeys
from tuf.api.exceptions import UnsignedMetadataError
from tuf.api.metadata import Metadata, MetaFile, Root, Snapshot, Targets, Timestamp
from tuf.api.serialization import DeserializationError

from shoal_fleet.errors import Conflict, Refused, TooLarge
from shoal_fleet.keys import FleetKeys, OnlineKeys

MAX_ROOT_BYTES = 192 << 10
"""In base64 it still fits an enrolment response."""
MAX_TARGETS_BYTES = 5_000_000
"""python-tuf's clients read no more."""

SNAPSHOT_LIFETIME = timedelta(days=7)
TIMESTAMP_LIFETIME = timedelta(days=1)

_Signed = TypeVar("_Signed", Root, Targets, Snapshot, Timestamp)


def check_root(raw: bytes, *, fleet: FleetKeys, now: float) -> Root:
    """The first root metadata, by which all devices will know everything else.

    Raises:
        TooLarge, Malformed: not root metadata.
        Untrusted: not signed by the keys that it names for itself.
        Refused: expired, without consistent snapshots, or with keys in the wrong roles; says which.
    """
    metadata = _parse(raw, Root, limit_bytes=MAX_ROOT_BYTES)
    root = metadata.signed
    _verify(root, metadata)
    _check_expiry(root, now=now)
    if root.consistent_snapshot is not True:
        raise Refused("root metadata: expected consistent_snapshot to be true")
    check_own_keys(root, fleet=fleet)
    return root


def check_own_keys(root: Root, *, fleet: FleetKeys) -> None:
    """Make sure that the fleet's keys have the roles that they must have, and no other.

    Raises:
        Refused: says which role has which key too many or too few.
    """
    own = {name: _value(_sslib_key(getattr(fleet, name))) for name in ("snapshot", "timestamp", "assignment")}
    for role in ("snapshot", "timestamp"):
        if root.roles[role].threshold != 1 or [_value(key) for key in _keys_of(root, role)] != [own[role]]:
            raise Refused(f"root metadata: expected the fleet's own {role} key alone for the role {role}")
    for role in ("root", "targets"):
        if any(_value(key) in own.values() for key in _keys_of(root, role)):
            raise Refused(f"root metadata: the role {role} has a key of the fleet, which could then forge releases")


def parse_root(raw: bytes) -> Root:
    """Root metadata that `check_root` has accepted."""
    return _parse(raw, Root, limit_bytes=MAX_ROOT_BYTES).signed


def parse_targets(raw: bytes) -> Targets:
    """Targets metadata that `check_targets` has accepted."""
    return _parse(raw, Targets, limit_bytes=MAX_TARGETS_BYTES).signed


def check_targets(raw: bytes, *, root: Root, version: int, now: float) -> Targets:
    """Targets metadata of exactly that version.

    Raises:
        TooLarge, Malformed: not targets metadata.
        Untrusted: not signed by the keys that root names for targets.
        Conflict: of another version.
        Refused: expired, or with delegations or digests that the fleet doesn't serve.
    """
    metadata = _parse(raw, Targets, limit_bytes=MAX_TARGETS_BYTES)
    targets = metadata.signed
    _verify(root, metadata)
    if targets.version != version:
        raise Conflict(f"targets metadata: expected version {version}, found {targets.version}")
    _check_expiry(targets, now=now)
    if targets.delegations is not None:
        raise Refused("targets metadata: expected no delegations, found some")
    for path, target in targets.targets.items():
        if set(target.hashes) != {"sha256"}:
            raise Refused(f"target {path[:200]}: expected a sha256 alone, found {sorted(target.hashes)}")
    return targets


def check_assignment_keys(raw: bytes, *, fleet: FleetKeys) -> None:
    """Make sure that devices will trust the assignments of this fleet.

    Raises:
        Malformed, Unsupported: not a list of keys.
        Refused: the fleet's own key isn't in it.
    """
    keys = decode(raw, AssignmentKeys, what=f"target {ASSIGNMENT_KEYS_PATH}").keys
    if fleet.assignment not in keys:
        raise Refused(f"target {ASSIGNMENT_KEYS_PATH}: expected this fleet's assignment key in it")


def check_target(targets: Targets, *, path: str, raw: bytes) -> None:
    """Make sure that the bytes are what the metadata promises at that path.

    Raises:
        Refused: nothing at that path, or other bytes.
    """
    listed = targets.targets.get(path)
    found = hashlib.sha256(raw).hexdigest()
    if listed is None:
        raise Refused(f"targets metadata: expected the target {path[:200]}, found none of that path")
    if listed.hashes["sha256"] != found or listed.length != len(raw):
        raise Refused(
            f"target {path[:200]}: signed as {listed.length} bytes with sha256 {listed.hashes['sha256']}, "
            f"found {len(raw)} bytes with sha256 {found}"
        )


def listed_digests(targets: Targets) -> Mapping[str, str]:
    """Path and SHA-256 of all targets."""
    return {path: target.hashes["sha256"] for path, target in targets.targets.items()}


def sign_snapshot(*, targets_version: int, version: int, root: Root, keys: OnlineKeys, now: float) -> bytes:
    """Snapshot metadata: which targets metadata is the present one."""
    content = Snapshot(
        version=version,
        expires=_expiry(now, SNAPSHOT_LIFETIME),
        meta={"targets.json": MetaFile(version=targets_version)},
    )
    return _sign(content, "snapshot", keys.snapshot, root)


def sign_timestamp(
    *, snapshot: bytes, snapshot_version: int, version: int, root: Root, keys: OnlineKeys, now: float
) -> bytes:
    """Timestamp metadata: which snapshot is the present one, and that it is so today."""
    content = Timestamp(
        version=version,
        expires=_expiry(now, TIMESTAMP_LIFETIME),
        snapshot_meta=MetaFile.from_data(snapshot_version, snapshot, ["sha256"]),
    )
    return _sign(content, "timestamp", keys.timestamp, root)


def snapshot_is_due(raw: bytes, *, now: float) -> bool:
    """Whether less than a third of its time is left."""
    return _is_due(Metadata[Snapshot].from_bytes(raw).signed.expires, SNAPSHOT_LIFETIME, now)


def timestamp_is_due(raw: bytes, *, now: float) -> bool:
    """Whether less than a third of its time is left."""
    return _is_due(Metadata[Timestamp].from_bytes(raw).signed.expires, TIMESTAMP_LIFETIME, now)


def _parse(raw: bytes, kind: type[_Signed], *, limit_bytes: int) -> Metadata[_Signed]:
    what = f"{kind.type} metadata"
    if len(raw) > limit_bytes:
        raise TooLarge(f"{what}: expected at most {limit_bytes} bytes, found {len(raw)}")
    try:
        metadata: Metadata[_Signed] = Metadata.from_bytes(raw)
    except (DeserializationError, RecursionError) as error:
        raise Malformed(f"{what}: not TUF metadata: {error}") from None
    if not isinstance(metadata.signed, kind):
        raise Malformed(f"{what}: found metadata of the role {metadata.signed.type}")
    return metadata


def _verify(root: Root, metadata: Metadata[_Signed]) -> None:
    role = metadata.signed.type
    try:
        root.verify_delegate(role, metadata.signed_bytes, metadata.signatures)
    except UnsignedMetadataError:
        raise Untrusted(
            f"{role} metadata: expected signatures by {root.roles[role].threshold} of the keys "
            f"{_names(root.roles[role].keyids)}, found {_names(metadata.signatures) or 'none'}"
        ) from None


def _check_expiry(signed: Root | Targets, *, now: float) -> None:
    if signed.is_expired(datetime.fromtimestamp(now, UTC)):
        raise Refused(f"{signed.type} metadata: expired at {signed.expires:%Y-%m-%d %H:%M:%S} UTC")


def _sign(content: _Signed, role: str, key: Ed25519PrivateKey, root: Root) -> bytes:
    public = _keys_of(root, role)[0]
    assert isinstance(public, SSlibKey)  # check_root: it is the fleet's own Ed25519 key
    metadata = Metadata(content)
    metadata.sign(CryptoSigner(key, public))
    return metadata.to_bytes()


def _keys_of(root: Root, role: str) -> list[Key]:
    missing = [keyid for keyid in root.roles[role].keyids if keyid not in root.keys]
    if missing:
        raise Refused(f"root metadata: the role {role} names the key {missing[0][:12]}, which isn't in it")
    return [root.keys[keyid] for keyid in root.roles[role].keyids]


def _sslib_key(text: str) -> SSlibKey:
    return SSlibKey.from_crypto(load_der_public_key(base64.b64decode(text)))


def _value(key: Key) -> tuple[str, str, str]:
    return key.keytype, key.scheme, str(key.keyval.get("public"))


def _names(key_ids: Iterable[str]) -> str:
    return ", ".join(sorted(key_id[:12] for key_id in key_ids))


def _expiry(now: float, lifetime: timedelta) -> datetime:
    return (datetime.fromtimestamp(now, UTC) + lifetime).replace(microsecond=0)


def _is_due(expires: datetime, lifetime: timedelta, now: float) -> bool:
    return expires - datetime.fromtimestamp(now, UTC) < lifetime / 3
