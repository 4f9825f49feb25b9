"""Which metadata of a publisher does the fleet accept?

Rules over bytes, keys and a time; after The Update Framework 1.0. The publisher holds the keys of root and targets, the
fleet those of snapshot and timestamp. A fleet that also held a key of root or targets could forge a release, so such a
root is refused. Releases are listed in the targets metadata, or in bins that it delegates to the same keys (TAP 15).
"""

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import load_der_public_key
from securesystemslib.signer import SSlibKey
from shoal_wire.encoding import decode
from shoal_wire.errors import Untrusted
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH, AssignmentKeys
from shoal_wire.metadata import (
    AUTHORITIES_PATH,
    BIN_PREFIX,
    FLOORS_PATH,
    MAX_BIT_LENGTH,
    MAX_FLOORS_BYTES,
    Floors,
    is_own_path,
    parse_authorities,
)
from tuf.api.metadata import Metadata, Root, SuccinctRoles, Targets

from shoal_fleet.errors import Conflict, Refused
from shoal_fleet.keys import FleetKeys
from shoal_fleet.trust.metadata import check_time, keys_of, parse, value_of, verify


def check_first_root(raw: bytes, *, fleet: FleetKeys, now: float) -> Root:
    """The first root metadata, by which all devices will know everything else.

    Raises:
        TooLarge, Malformed: not root metadata.
        Untrusted: not signed by the keys that it names for itself.
        Refused: expired, without consistent snapshots, or with keys in the wrong roles; says which.
    """
    metadata = parse(raw, Root, what="root metadata")
    root = metadata.signed
    verify(root, metadata, role=Root.type, what="root metadata")
    _check_root(root, now=now)
    check_own_keys(root, fleet=fleet)
    return root


def follow_roots(present: Root, raws: Sequence[bytes], *, now: float) -> Root:
    """The root that new root metadata leads to, each one version after the other.

    Raises:
        TooLarge, Malformed: not root metadata.
        Conflict: not the next version.
        Untrusted: not signed by the keys of the root before and by its own.
        Refused: as `check_first_root`, except that the fleet's own keys are for `check_own_keys`.
    """
    root = present
    for raw in raws:
        metadata = parse(raw, Root, what="root metadata")
        what = f"root metadata version {metadata.signed.version}"
        if metadata.signed.version != root.version + 1:
            raise Conflict(f"root metadata: expected version {root.version + 1}, found {metadata.signed.version}")
        verify(root, metadata, role=Root.type, what=f"{what}, by the root before it")
        verify(metadata.signed, metadata, role=Root.type, what=f"{what}, by itself")
        root = metadata.signed
    if raws:
        _check_root(root, now=now)
    return root


def check_own_keys(root: Root, *, fleet: FleetKeys) -> None:
    """Make sure that the fleet's keys have the roles that they must have, and no other.

    Raises:
        Refused: says which role has which key too many or too few.
    """
    own = {name: value_of(_sslib_key(getattr(fleet, name))) for name in ("snapshot", "timestamp", "assignment")}
    for role in ("snapshot", "timestamp"):
        if root.roles[role].threshold != 1 or [value_of(key) for key in keys_of(root, role)] != [own[role]]:
            raise Refused(f"root metadata: expected the fleet's own {role} key alone for the role {role}")
    for role in ("root", "targets"):
        if any(value_of(key) in own.values() for key in keys_of(root, role)):
            raise Refused(f"root metadata: the role {role} has a key of the fleet, which could then forge releases")


def names_own_keys(root: Root, *, fleet: FleetKeys) -> bool:
    """Whether `check_own_keys` passes."""
    try:
        check_own_keys(root, fleet=fleet)
    except Refused:
        return False
    return True


def parse_root(raw: bytes) -> Root:
    """Root metadata that was accepted."""
    return parse(raw, Root, what="root metadata").signed


def parse_targets(raw: bytes, *, role: str = Targets.type) -> Targets:
    """Targets metadata, or a bin, that was accepted."""
    return parse(raw, Targets, what=f"{role} metadata").signed


def check_targets(raw: bytes, *, root: Root, version: int, now: float) -> Targets:
    """Targets metadata of exactly that version.

    Raises:
        TooLarge, Malformed: not targets metadata.
        Untrusted: not signed by the keys that root names for targets.
        Conflict: of another version.
        Refused: expired, or with delegations or digests that the fleet doesn't serve.
    """
    metadata = parse(raw, Targets, what="targets metadata")
    targets = metadata.signed
    verify(root, metadata, role=Targets.type, what="targets metadata")
    if targets.version != version:
        raise Conflict(f"targets metadata: expected version {version}, found {targets.version}")
    check_time(targets, what="targets metadata", now=now)
    if targets.delegations is not None:
        _check_delegation(targets, root)
        strange = [path for path in targets.targets if not is_own_path(path)]
        if strange:
            raise Refused(f"targets metadata: lists {strange[0][:200]} beside bins, which must list it")
    _check_digests(targets)
    return targets


def check_still_signed(raw: bytes, *, root: Root, now: float) -> Targets:
    """The present targets metadata, under a root that may be newer than it.

    Raises:
        Refused: not signed by the keys that root names now, or expired: a newer one must come along.
    """
    metadata = parse(raw, Targets, what="targets metadata")
    try:
        verify(root, metadata, role=Targets.type, what="targets metadata")
    except Untrusted as error:
        raise Refused(f"{error}: new targets metadata must come with that root") from None
    check_time(metadata.signed, what="targets metadata", now=now)
    return metadata.signed


def bins_of(targets: Targets) -> SuccinctRoles | None:
    """How releases are spread over bins; None where the targets metadata lists them itself."""
    return None if targets.delegations is None else targets.delegations.succinct_roles


def check_bin(raw: bytes, *, role: str, targets: Targets, version: int | None, now: float) -> Targets:
    """A bin, of exactly that version if one is given.

    Raises:
        TooLarge, Malformed: not targets metadata.
        Untrusted: not signed by the release keys.
        Conflict: of another version.
        Refused: not one of the bins, expired, with delegations, or with a target of another bin.
    """
    what = f"metadata of {role[:40]}"
    bins = bins_of(targets)
    if bins is None or not bins.is_delegated_role(role):
        raise Refused(f"{what}: the targets metadata names no such bin")
    metadata: Metadata[Targets] = parse(raw, Targets, what=what)
    found = metadata.signed
    verify(targets, metadata, role=role, what=what)
    if version is not None and found.version != version:
        raise Conflict(f"{what}: expected version {version}, found {found.version}")
    check_time(found, what=what, now=now)
    if found.delegations is not None:
        raise Refused(f"{what}: expected no delegations, found some")
    for path in found.targets:
        if is_own_path(path) or bins.get_role_for_target(path) != role:
            raise Refused(f"{what}: lists {path[:200]}, which doesn't belong there")
    _check_digests(found)
    return found


def check_assignment_keys(raw: bytes, *, fleet: FleetKeys, allowed: Collection[str] | None) -> None:
    """Make sure that devices will trust the assignments of this fleet, and of nobody else.

    Args:
        allowed: keys that may be in it; None for a list that was there before and is not judged anew.

    Raises:
        Malformed, Unsupported: not a list of keys.
        Refused: the fleet's own key isn't in it, or one is that may not.
    """
    keys = decode(raw, AssignmentKeys, what=f"target {ASSIGNMENT_KEYS_PATH}").keys
    if fleet.assignment not in keys:
        raise Refused(f"target {ASSIGNMENT_KEYS_PATH}: expected this fleet's assignment key in it")
    strange = [] if allowed is None else [key for key in keys if key not in allowed]
    if strange:
        raise Refused(
            f"target {ASSIGNMENT_KEYS_PATH}: expected this fleet's assignment keys alone, found {strange[0][:100]}: "
            "whoever holds that key could give devices orders"
        )


def check_authorities(raw: bytes, *, issuer: str) -> None:
    """Make sure that devices will trust this fleet's servers.

    Args:
        issuer: fingerprint (SHA-256 in hex) of the authority that issues now.

    Raises:
        Malformed, Unsupported: not a list of authorities.
        Refused: the one that issues isn't in it.
    """
    named = [one.fingerprint(hashes.SHA256()).hex() for one in parse_authorities(raw)]
    if issuer not in named:
        raise Refused(
            f"target {AUTHORITIES_PATH}: expected the authority {issuer}, by which this fleet's servers have their "
            f"certificates, found {', '.join(named)}: name it with `shoal keys authorities`"
        )


def check_floors(raw: bytes, *, present: Floors) -> Floors:
    """Make sure that devices can follow the list of what was revoked.

    Raises:
        Malformed, Unsupported: it is none.
        Refused: a floor is lower than the present one, which no device would follow.
    """
    floors = decode(raw, Floors, what=f"target {FLOORS_PATH}", limit_bytes=MAX_FLOORS_BYTES)
    for name, floor in present.floors.items():
        if floors.floors.get(name, 0) < floor:
            raise Refused(
                f"target {FLOORS_PATH}: the floor of model {name} is {floor}, found {floors.floors.get(name, 'none')}: "
                "a floor never sinks"
            )
    return floors


def check_target(targets: Iterable[Targets], *, path: str, raw: bytes) -> None:
    """Make sure that the bytes are what the metadata promises at that path.

    Raises:
        Refused: nothing at that path, or other bytes.
    """
    listed = next((found.targets[path] for found in targets if path in found.targets), None)
    sha256 = hashlib.sha256(raw).hexdigest()
    if listed is None:
        raise Refused(f"targets metadata: expected the target {path[:200]}, found none of that path")
    if listed.hashes["sha256"] != sha256 or listed.length != len(raw):
        raise Refused(
            f"target {path[:200]}: signed as {listed.length} bytes with sha256 {listed.hashes['sha256']}, "
            f"found {len(raw)} bytes with sha256 {sha256}"
        )


def listed_digests(targets: Targets) -> Mapping[str, str]:
    """Path and SHA-256 of all targets that it lists itself."""
    return {path: target.hashes["sha256"] for path, target in targets.targets.items()}


def _check_root(root: Root, *, now: float) -> None:
    check_time(root, what="root metadata", now=now)
    if root.consistent_snapshot is not True:
        raise Refused("root metadata: expected consistent_snapshot to be true")


def _check_delegation(targets: Targets, root: Root) -> None:
    bins, delegations, release = bins_of(targets), targets.delegations, root.roles[Targets.type]
    if bins is None or delegations is None:
        raise Refused("targets metadata: expected a delegation to succinct hash bins (TAP 15), found another")
    if bins.name_prefix != BIN_PREFIX or bins.bit_length > MAX_BIT_LENGTH:
        raise Refused(
            f"targets metadata: expected bins named {BIN_PREFIX} by at most {MAX_BIT_LENGTH} bits, found "
            f"{bins.name_prefix[:40]} by {bins.bit_length}"
        )
    keys = [delegations.keys[keyid] for keyid in bins.keyids if keyid in delegations.keys]
    expected = sorted(map(value_of, keys_of(root, Targets.type)))
    if bins.threshold != release.threshold or sorted(map(value_of, keys)) != expected:
        raise Refused("targets metadata: expected its bins to have the release keys and their threshold, found others")


def _check_digests(targets: Targets) -> None:
    for path, target in targets.targets.items():
        if set(target.hashes) != {"sha256"}:
            raise Refused(f"target {path[:200]}: expected a sha256 alone, found {sorted(target.hashes)}")


def _sslib_key(text: str) -> SSlibKey:
    return SSlibKey.from_crypto(load_der_public_key(base64.b64decode(text)))
