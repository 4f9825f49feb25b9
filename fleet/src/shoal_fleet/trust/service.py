"""Which signed metadata is the present one, and how does the next come in?"""

import hashlib
import re
from collections.abc import Mapping
from typing import NamedTuple

from shoal_wire.manifest import MAX_MANIFEST_BYTES
from shoal_wire.messages import ASSIGNMENT_KEYS_PATH
from sqlalchemy import select
from sqlalchemy.orm import Session
from tuf.api.metadata import Root, Targets

from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotFound, Refused, TooLarge
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.trust import rules
from shoal_fleet.trust.models import RoleMetadata, Target

_FILE_NAME = re.compile(r"(?:([1-9][0-9]{0,9})\.)?(root|targets|snapshot|timestamp)\.json")
_TARGET_NAME = re.compile(r"((?:[A-Za-z0-9._-]+/)*)([0-9a-f]{64})\.([A-Za-z0-9._-]+)")


class Trusted(NamedTuple):
    """What the publisher signed: the first root, and the newest targets. None before the ceremony."""

    root: bytes | None
    targets: bytes | None


def find_trusted(session: Session) -> Trusted:
    """Root and targets metadata in use."""
    root, targets = _newest(session, Root.type), _newest(session, Targets.type)
    return Trusted(root=root.raw if root else None, targets=targets.raw if targets else None)


def find_root(session: Session) -> bytes:
    """The root metadata that devices start with.

    Raises:
        Conflict: no publisher has registered yet.
    """
    root = _newest(session, Root.type)
    if root is None:
        raise Conflict("this fleet has no publisher yet: run `shoal keys init` first")
    return root.raw


def begin(
    session: Session, *, root: bytes, targets: bytes, target_files: Mapping[str, bytes], keys: OnlineKeys, now: float
) -> Trusted:
    """The ceremony: take the publisher's root and first targets, and sign snapshot and timestamp. Once only.

    Raises:
        Conflict: there is a publisher already, or targets aren't version 1.
        Untrusted, Malformed, Refused: see `rules`.
    """
    checked_root = rules.check_root(root, fleet=keys.public, now=now)
    checked_targets = rules.check_targets(targets, root=checked_root, version=1, now=now)
    with writing(session):
        if _newest(session, Root.type) is not None:
            raise Conflict("this fleet has a publisher already: its root metadata can't be replaced")
        session.add(RoleMetadata(role=Root.type, version=checked_root.version, raw=root, created_at=now))
        _add(session, checked_root, checked_targets, raw=targets, files=target_files, keys=keys, now=now)
    return Trusted(root=root, targets=targets)


def add_targets(session: Session, *, raw: bytes, files: Mapping[str, bytes], keys: OnlineKeys, now: float) -> Targets:
    """Take the next version of targets with its new files, in the caller's transaction; snapshot and timestamp follow.

    Raises:
        Conflict: no publisher yet, or not the next version.
        Untrusted, Malformed, Refused: see `rules`; or a listed target whose bytes the fleet doesn't have.
    """
    root = rules.parse_root(find_root(session))
    present = _newest(session, Targets.type)
    version = 1 + (present.version if present else 0)
    targets = rules.check_targets(raw, root=root, version=version, now=now)
    _add(session, root, targets, raw=raw, files=files, keys=keys, now=now)
    return targets


def check_keys(session: Session, *, keys: OnlineKeys) -> None:
    """Make sure that these are the keys which the publisher's root names, where there is one.

    Raises:
        Refused: they aren't: keys and database are of different backups.
    """
    root = find_trusted(session).root
    if root is not None:
        rules.check_own_keys(rules.parse_root(root), fleet=keys.public)


def renew(session: Session, *, keys: OnlineKeys, now: float) -> bool:
    """Sign snapshot and timestamp anew where less than a third of their time is left. Returns whether any was."""
    with writing(session):
        root, targets = _newest(session, Root.type), _newest(session, Targets.type)
        snapshot, timestamp = _newest(session, "snapshot"), _newest(session, "timestamp")
        if root is None or targets is None or snapshot is None or timestamp is None:
            return False
        trusted = rules.parse_root(root.raw)
        if rules.snapshot_is_due(snapshot.raw, now=now):
            _sign_snapshot(session, trusted, targets_version=targets.version, keys=keys, now=now)
        elif rules.timestamp_is_due(timestamp.raw, now=now):
            _sign_timestamp(session, trusted, snapshot, keys=keys, now=now)
        else:
            return False
    return True


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


def _add(
    session: Session,
    root: Root,
    targets: Targets,
    *,
    raw: bytes,
    files: Mapping[str, bytes],
    keys: OnlineKeys,
    now: float,
) -> None:
    for path, content in files.items():
        if len(content) > MAX_MANIFEST_BYTES:
            raise TooLarge(f"target {path[:200]}: expected at most {MAX_MANIFEST_BYTES} bytes, found {len(content)}")
        rules.check_target(targets, path=path, raw=content)
        session.merge(Target(path=path, sha256=hashlib.sha256(content).hexdigest(), raw=content))
    session.flush()
    _check_all_held(session, targets, keys=keys)
    session.add(RoleMetadata(role=Targets.type, version=targets.version, raw=raw, created_at=now))
    _sign_snapshot(session, root, targets_version=targets.version, keys=keys, now=now)


def _check_all_held(session: Session, targets: Targets, *, keys: OnlineKeys) -> None:
    """A device that asked for a listed target must get it, and must trust this fleet's assignments."""
    listed = rules.listed_digests(targets)
    for path, sha256 in listed.items():
        if session.get(Target, (path, sha256)) is None:
            raise Refused(f"target {path[:200]} with sha256 {sha256}: listed, but its bytes aren't here")
    if ASSIGNMENT_KEYS_PATH not in listed:
        raise Refused(f"targets metadata: expected the target {ASSIGNMENT_KEYS_PATH}, found none of that path")
    assignment_keys = session.get_one(Target, (ASSIGNMENT_KEYS_PATH, listed[ASSIGNMENT_KEYS_PATH]))
    rules.check_assignment_keys(assignment_keys.raw, fleet=keys.public)


def _sign_snapshot(session: Session, root: Root, *, targets_version: int, keys: OnlineKeys, now: float) -> None:
    version = _next_version(session, "snapshot")
    raw = rules.sign_snapshot(targets_version=targets_version, version=version, root=root, keys=keys, now=now)
    row = RoleMetadata(role="snapshot", version=version, raw=raw, created_at=now)
    session.add(row)
    _sign_timestamp(session, root, row, keys=keys, now=now)


def _sign_timestamp(session: Session, root: Root, snapshot: RoleMetadata, *, keys: OnlineKeys, now: float) -> None:
    version = _next_version(session, "timestamp")
    raw = rules.sign_timestamp(
        snapshot=snapshot.raw, snapshot_version=snapshot.version, version=version, root=root, keys=keys, now=now
    )
    session.add(RoleMetadata(role="timestamp", version=version, raw=raw, created_at=now))


def _next_version(session: Session, role: str) -> int:
    newest = _newest(session, role)
    return 1 + (newest.version if newest else 0)


def _newest(session: Session, role: str) -> RoleMetadata | None:
    return session.scalar(
        select(RoleMetadata).where(RoleMetadata.role == role).order_by(RoleMetadata.version.desc()).limit(1)
    )
