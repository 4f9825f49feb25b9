"""Which signed metadata is the present one, and how does the next come in?"""

import hashlib
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from shoal_wire.encoding import decode
from shoal_wire.manifest import MAX_MANIFEST_BYTES, target_path
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from shoal_wire.metadata import AUTHORITIES_PATH, FLOORS_PATH, MAX_FLOORS_BYTES, Floors
from sqlalchemy import func, select
from sqlalchemy.orm import Session
from tuf.api.metadata import Root, Targets, Timestamp

from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotFound, Refused, TooLarge
from shoal_fleet.keys import FleetKeys, OnlineKeys
from shoal_fleet.trust import rules, signing
from shoal_fleet.trust.metadata import CLOCKS_DIFFER_S
from shoal_fleet.trust.models import RoleMetadata, Target
from shoal_fleet.trust.signing import Dating, Signing

_FILE_NAME = re.compile(r"(?:([1-9][0-9]{0,9})\.)?(root|targets|snapshot|timestamp|bins-[0-9a-f]{1,8})\.json")
_TARGET_NAME = re.compile(r"((?:[A-Za-z0-9._-]+/)*)([0-9a-f]{64})\.([A-Za-z0-9._-]+)")
_ONLINE = ("snapshot", "timestamp")

_log = logging.getLogger(__name__)


class Trusted(NamedTuple):
    """What the publisher signed: the newest root and targets. None before the ceremony."""

    root: bytes | None
    targets: bytes | None


class MetadataUpdate(NamedTuple):
    """What a publisher has signed anew. Each is the next version of its role."""

    roots: Sequence[bytes] = ()
    targets: bytes | None = None
    bins: Mapping[str, bytes] = {}
    """By role, `bins-0a`."""
    files: Mapping[str, bytes] = {}
    """Targets whose bytes the fleet may not have yet, by path."""


class _Own(NamedTuple):
    """What the publisher's lists are held against."""

    fleet: FleetKeys
    """Those that root names."""
    assignment: Collection[str]
    """Public halves of the keys that assign now, or are to follow."""
    issuer: str
    """Fingerprint (SHA-256 in hex) of the authority that issues."""


def find_trusted(session: Session) -> Trusted:
    """Root and targets metadata in use."""
    root, targets = _newest(session, Root.type), _newest(session, Targets.type)
    return Trusted(root=root.raw if root else None, targets=targets.raw if targets else None)


def find_root(session: Session, *, by: float | None = None) -> bytes:
    """The root metadata that devices start with: the newest, or the newest that was there at that time.

    Raises:
        Conflict: no publisher has registered yet.
    """
    rows = select(RoleMetadata).where(RoleMetadata.role == Root.type).order_by(RoleMetadata.version.desc())
    root = session.scalar((rows if by is None else rows.where(RoleMetadata.created_at <= by)).limit(1))
    if root is None:
        raise Conflict("this fleet has no publisher yet: run `shoal keys init` first")
    return root.raw


def begin(
    session: Session,
    *,
    root: bytes,
    targets: bytes,
    target_files: Mapping[str, bytes],
    keys: OnlineKeys,
    issuer: str,
    now: float,
) -> Trusted:
    """The ceremony: take the publisher's root and first targets, and sign snapshot and timestamp. Once only.

    `issuer` is the fingerprint of the authority that issues.

    Raises:
        Conflict: there is a publisher already, or targets aren't version 1.
        Untrusted, Malformed, Refused: see `rules`.
    """
    checked_root = rules.check_first_root(root, fleet=keys.public, now=now)
    checked_targets = rules.check_targets(targets, root=checked_root, version=1, now=now)
    with writing(session):
        if _newest(session, Root.type) is not None:
            raise Conflict("this fleet has a publisher already: its root metadata can't be replaced")
        _keep(session, Root.type, checked_root.version, root, now=now)
        _keep(session, Targets.type, 1, targets, now=now)
        session.flush()
        _check_files(session, [checked_targets], target_files)
        own = _Own(keys.public, (keys.public.assignment,), issuer)
        _check_own_targets(session, checked_targets, before={}, own=own)
        _sign_snapshot(session, checked_root, keys=keys, now=now)
    return Trusted(root=root, targets=targets)


def update(session: Session, new: MetadataUpdate, *, keys: OnlineKeys, issuer: str, by: str, now: float) -> None:
    """Take what the publisher has signed anew. Where root names the fleet's next keys, they count from then on.

    `issuer` is the fingerprint of the authority that issues.

    Raises:
        Conflict, Untrusted, Malformed, Refused: as `accept`.
    """
    with writing(session):
        floors = find_floors(session)
        accept(session, new, keys=keys, issuer=issuer, now=now)
        detail = {"roots": len(new.roots), "targets": new.targets is not None, "bins": len(new.bins)}
        audit.append(session, actor=by, action="metadata.updated", subject="trust", detail=detail, now=now)
        _record_floors(session, before=floors, by=by, now=now)
    take_up_keys(session, keys=keys)


def accept(session: Session, new: MetadataUpdate, *, keys: OnlineKeys, issuer: str, now: float) -> int:
    """The same in the caller's transaction, without the change of keys; returns the version of targets in force.

    Raises:
        Conflict: no publisher yet, or not the next version.
        Untrusted, Malformed, Refused: see `rules`; or a listed target whose bytes the fleet doesn't have.
    """
    present = rules.parse_root(find_root(session))
    root = rules.follow_roots(present, new.roots, now=now)
    signing_keys, own = _keys_for(session, root, keys=keys, issuer=issuer)
    before = _list_own(session)
    for raw in new.roots:
        _keep(session, Root.type, rules.parse_root(raw).version, raw, now=now)
    targets = _take_targets(session, new, root, now=now)
    bins = _take_bins(session, new, targets, now=now)
    session.flush()
    _check_files(session, [targets, *bins] if new.targets is not None else bins, new.files)
    _check_own_targets(session, targets, before=before, own=own)
    _sign_snapshot(session, root, keys=signing_keys, now=now)
    return targets.version


def take_up_keys(session: Session, *, keys: OnlineKeys) -> None:
    """Have the fleet's next keys count, where the present root names them. Makes sure that root names those in use.

    Raises:
        Refused: it names neither: keys and database are of different backups.
    """
    raw = find_trusted(session).root
    if raw is None:
        return
    root, coming = rules.parse_root(raw), keys.find_next(session)
    session.rollback()  # only read so far: the keys change in a transaction that writes
    if coming is not None and rules.names_own_keys(root, fleet=coming[1]):
        keys.take_up_next(session)
    rules.check_own_keys(root, fleet=keys.public)


def renew(session: Session, *, keys: OnlineKeys, now: float) -> bool:
    """Sign snapshot and timestamp anew where less than a third of their time is left. Returns whether any was."""
    with writing(session):
        root, snapshot, timestamp = (_newest(session, role) for role in (Root.type, *_ONLINE))
        if root is None or snapshot is None or timestamp is None:
            return False
        trusted = rules.parse_root(root.raw)
        dating = _date(session, trusted, now=now)
        if signing.snapshot_is_due(snapshot.raw, at=dating.at):
            _sign_snapshot(session, trusted, keys=keys, now=now)
        elif signing.timestamp_is_due(timestamp.raw, at=dating.at):
            _sign_timestamp(session, trusted, snapshot, keys=keys, dating=dating, now=now)
        else:
            return False
    return True


def find_trouble(session: Session, *, now: float) -> str:
    """What an operator must know of the times that the fleet signed; empty where all is well.

    A time that isn't gone on with is told until the clock has reached it, or the keys that signed it are replaced.
    """
    raw = find_trusted(session).root
    if raw is None:
        return ""
    root = rules.parse_root(raw)
    dating, newest_at = _date(session, root, now=now), _find_time_ahead(session, root, now=now)
    if newest_at > dating.at + CLOCKS_DIFFER_S:
        return signing.say_given_up(now=now, newest_at=newest_at)
    return dating.trouble


def versions(session: Session) -> Mapping[str, int]:
    """Newest version of each role's metadata."""
    rows = session.execute(select(RoleMetadata.role, func.max(RoleMetadata.version)).group_by(RoleMetadata.role))
    return {role: int(version) for role, version in rows}


def find_listed(session: Session, *, name: str, version: int) -> str | None:
    """Digest of a release's manifest, as it is signed now; None where it isn't, or not any more."""
    raw = find_trusted(session).targets
    if raw is None:
        return None
    targets, path = rules.parse_targets(raw), target_path(name=name, version=version)
    bins = rules.bins_of(targets)
    if bins is not None:
        role = bins.get_role_for_target(path)
        row = _newest(session, role)
        if row is None:
            return None
        targets = rules.parse_targets(row.raw, role=role)
    return rules.listed_digests(targets).get(path)


def find_floors(session: Session) -> Floors:
    """What was revoked, as it is signed now."""
    return _read_floors(session, _list_own(session).get(FLOORS_PATH))


def read_metadata(session: Session, file_name: str) -> bytes:
    """Metadata by the name under which clients ask for it: `timestamp.json`, or `<version>.<role>.json`.

    Raises:
        NotFound: no such file. A client that looks for a newer root expects that.
    """
    match = _FILE_NAME.fullmatch(file_name)
    row = None
    if match:
        number, role = match.groups()
        if number is None and role == "timestamp":
            row = _newest(session, role)
        elif number is not None and role != "timestamp":
            row = session.get(RoleMetadata, (role, int(number)))
    if row is None:
        raise NotFound(f"metadata {file_name[:200]!r}: not here")
    return row.raw


def read_target(session: Session, prefixed_path: str) -> bytes:
    """Bytes of a target by `<folder>/<sha256>.<file>`.

    Raises:
        NotFound: no such target.
    """
    match = _TARGET_NAME.fullmatch(prefixed_path)
    row = session.get(Target, (match[1] + match[3], match[2])) if match else None
    if row is None:
        raise NotFound(f"target {prefixed_path[:200]!r}: not here")
    return row.raw


def _record_floors(session: Session, *, before: Floors, by: str, now: float) -> None:
    """Tell the audit log what was revoked."""
    present = find_floors(session)
    for name, floor in present.floors.items():
        if floor > before.floors.get(name, 0):
            detail = {"floor": floor, "before": before.floors.get(name, 0)}
            audit.append(session, actor=by, action="floor.raised", subject=name, detail=detail, now=now)
    for digest in set(present.revoked) - set(before.revoked):
        audit.append(session, actor=by, action="release.revoked", subject=digest, detail={}, now=now)


def _keys_for(session: Session, root: Root, *, keys: OnlineKeys, issuer: str) -> tuple[Signing, _Own]:
    """The fleet's keys that root names: those in use, or those that are to follow.

    Raises:
        Refused: it names neither.
    """
    coming = keys.find_next(session)
    assignment = [keys.public.assignment, *([] if coming is None else [coming[1].assignment])]
    if coming is not None and rules.names_own_keys(root, fleet=coming[1]):
        return coming[0], _Own(coming[1], assignment, issuer)
    rules.check_own_keys(root, fleet=keys.public)
    return keys, _Own(keys.public, assignment, issuer)


def _take_targets(session: Session, new: MetadataUpdate, root: Root, *, now: float) -> Targets:
    present = _newest(session, Targets.type)
    version = present.version if present else 0
    if new.targets is None:
        if present is None:
            raise Conflict("targets metadata: expected version 1, found none")
        return rules.check_still_signed(present.raw, root=root, now=now)
    targets = rules.check_targets(new.targets, root=root, version=version + 1, now=now)
    if present is not None and rules.bins_of(targets) is None and rules.bins_of(rules.parse_targets(present.raw)):
        raise Refused("targets metadata: expected its bins to stay, found none; clients would miss them")
    _keep(session, Targets.type, targets.version, new.targets, now=now)
    return targets


def _take_bins(session: Session, new: MetadataUpdate, targets: Targets, *, now: float) -> list[Targets]:
    """Take new bins; where targets are new, those that stay must fit to them. Returns the new ones."""
    known = versions(session)
    taken = []
    for role, raw in sorted(new.bins.items()):
        found = rules.check_bin(raw, role=role, targets=targets, version=known.get(role, 0) + 1, now=now)
        _keep(session, role, found.version, raw, now=now)
        taken.append(found)
    bins = rules.bins_of(targets)
    if bins is not None and new.targets is not None:
        for role in bins.get_roles():
            if role in new.bins:
                continue
            row = _newest(session, role)
            if row is None:
                raise Refused(f"metadata of {role}: the targets metadata names this bin, expected it to come along")
            rules.check_bin(row.raw, role=role, targets=targets, version=None, now=now)
    return taken


def _check_files(session: Session, listing: Sequence[Targets], files: Mapping[str, bytes]) -> None:
    """Keep new targets. A device that asks for a listed one must get it."""
    for path, content in files.items():
        if len(content) > MAX_MANIFEST_BYTES:
            raise TooLarge(f"target {path[:200]}: expected at most {MAX_MANIFEST_BYTES} bytes, found {len(content)}")
        rules.check_target(listing, path=path, raw=content)
        session.merge(Target(path=path, sha256=hashlib.sha256(content).hexdigest(), raw=content))
    session.flush()
    held = {(path, sha256) for path, sha256 in session.execute(select(Target.path, Target.sha256))}
    for targets in listing:
        for path, sha256 in rules.listed_digests(targets).items():
            if (path, sha256) not in held:
                raise Refused(f"target {path[:200]} with sha256 {sha256}: listed, but its bytes aren't here")


def _check_own_targets(session: Session, targets: Targets, *, before: Mapping[str, str], own: _Own) -> None:
    """A device must trust this fleet's assignments and servers, and be able to follow what was revoked.

    Whether a list names the wrong ones is judged when it comes in, not while it stays: the fleet may have gone over to
    another authority since. `before` are the digests of what was listed until now.
    """
    listed = rules.listed_digests(targets)
    is_new = {path: sha256 != before.get(path) for path, sha256 in listed.items()}
    if ASSIGNMENT_KEYS_PATH not in listed:
        raise Refused(f"targets metadata: expected the target {ASSIGNMENT_KEYS_PATH}, found none of that path")
    assignment_keys = session.get_one(Target, (ASSIGNMENT_KEYS_PATH, listed[ASSIGNMENT_KEYS_PATH]))
    allowed = own.assignment if is_new[ASSIGNMENT_KEYS_PATH] else None
    rules.check_assignment_keys(assignment_keys.raw, fleet=own.fleet, allowed=allowed)
    if FLOORS_PATH in listed:
        raw = session.get_one(Target, (FLOORS_PATH, listed[FLOORS_PATH])).raw
        rules.check_floors(raw, present=_read_floors(session, before.get(FLOORS_PATH)))
    if is_new.get(AUTHORITIES_PATH):
        raw = session.get_one(Target, (AUTHORITIES_PATH, listed[AUTHORITIES_PATH])).raw
        rules.check_authorities(raw, issuer=own.issuer)


def _list_own(session: Session) -> Mapping[str, str]:
    """Path and SHA-256 of what the targets metadata in use lists itself."""
    raw = find_trusted(session).targets
    return {} if raw is None else rules.listed_digests(rules.parse_targets(raw))


def _read_floors(session: Session, sha256: str | None) -> Floors:
    if sha256 is None:
        return Floors()
    raw = session.get_one(Target, (FLOORS_PATH, sha256)).raw
    return decode(raw, Floors, what=f"target {FLOORS_PATH}", limit_bytes=MAX_FLOORS_BYTES)


def _date(session: Session, root: Root, *, now: float) -> Dating:
    """With what time to sign now, under that root."""
    rows = {role: row for role in (*_ONLINE, Targets.type) if (row := _newest(session, role)) is not None}
    targets = rows.pop(Targets.type, None)
    ends = [root.expires] + ([] if targets is None else [rules.parse_targets(targets.raw).expires])
    newest_at = signing.find_newest_time(root, {role: row.raw for role, row in rows.items()})
    return signing.choose_time(now=now, newest_at=newest_at, limit_at=min(ends).timestamp())


def _find_time_ahead(session: Session, root: Root, *, now: float) -> float:
    """The newest time beyond now that the fleet's present keys ever signed; 0 where there is none.

    Each is in a timestamp that was made while the clock ran ahead. What earlier keys signed has lower versions.
    """
    is_ahead = (RoleMetadata.role == Timestamp.type) & (RoleMetadata.created_at > now + CLOCKS_DIFFER_S)
    newest_at = 0.0
    for raw in session.scalars(select(RoleMetadata.raw).where(is_ahead).order_by(RoleMetadata.version.desc())):
        at = signing.read_time(root, Timestamp.type, raw)
        if at is None:
            break
        newest_at = max(newest_at, at)
    return newest_at


def _sign_snapshot(session: Session, root: Root, *, keys: Signing, now: float) -> None:
    dating = _date(session, root, now=now)
    if dating.trouble:
        _log.warning("%s", dating.trouble)
    listed = {role: number for role, number in versions(session).items() if role not in (Root.type, *_ONLINE)}
    version = _next_version(session, "snapshot")
    raw = signing.sign_snapshot(versions=listed, version=version, root=root, keys=keys, at=dating.at)
    row = RoleMetadata(role="snapshot", version=version, raw=raw, created_at=now)
    session.add(row)
    _sign_timestamp(session, root, row, keys=keys, dating=dating, now=now)


def _sign_timestamp(
    session: Session, root: Root, snapshot: RoleMetadata, *, keys: Signing, dating: Dating, now: float
) -> None:
    version = _next_version(session, "timestamp")
    raw = signing.sign_timestamp(
        snapshot=snapshot.raw, snapshot_version=snapshot.version, version=version, root=root, keys=keys, at=dating.at
    )
    _keep(session, "timestamp", version, raw, now=now)


def _keep(session: Session, role: str, version: int, raw: bytes, *, now: float) -> None:
    session.add(RoleMetadata(role=role, version=version, raw=raw, created_at=now))


def _next_version(session: Session, role: str) -> int:
    newest = _newest(session, role)
    return 1 + (newest.version if newest else 0)


def _newest(session: Session, role: str) -> RoleMetadata | None:
    return session.scalar(
        select(RoleMetadata).where(RoleMetadata.role == role).order_by(RoleMetadata.version.desc()).limit(1)
    )
