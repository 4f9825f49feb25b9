"""Which releases are there, and how does a new one come in?"""

import hashlib
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from shoal_wire.grant import FLEET, Grant, GrantContext, open_grant
from shoal_wire.manifest import Manifest, parse_manifest, target_path
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotFound, Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases.models import FleetGrant, Release
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.trust import service as trust


def list_releases(session: Session) -> Sequence[Release]:
    """All releases by name, newest version first."""
    return session.scalars(select(Release).order_by(Release.name, Release.version.desc())).all()


def find_release(session: Session, *, name: str, version: int) -> Release:
    """A release.

    Raises:
        NotFound: there is none of that name and version.
    """
    release = _find(session, name, version)
    if release is None:
        raise NotFound(f"release {name[:80]} {version}: not of this fleet")
    return release


def read_manifest(session: Session, release: Release) -> Manifest:
    """The manifest of a release."""
    folder, _, file = target_path(name=release.name, version=release.version).rpartition("/")
    return parse_manifest(trust.read_target(session, f"{folder}/{release.manifest_sha256}.{file}"))


def content_keys(session: Session, release: Release, *, fleet_key: X25519PrivateKey) -> dict[str, bytes]:
    """Content key of each sealed file of a release by the digest of the sealed file. Keep them no longer than needed.

    Raises:
        Untrusted: sealed to another key of the fleet, as after a restore of the database alone.
    """
    context = _context(release.name, release.version)
    rows = session.scalars(select(FleetGrant).where(FleetGrant.release_id == release.id))
    return {
        row.ciphertext_sha256: open_grant(
            Grant(row.ciphertext_sha256, row.counter, row.sealed_key), fleet_key, context=context
        )
        for row in rows
    }


def create_release(
    session: Session,
    *,
    targets: bytes,
    manifest: bytes,
    grants: Sequence[Grant],
    store: SealedStore,
    keys: OnlineKeys,
    now: float,
) -> Release:
    """Take a signed release whose sealed files were uploaded before.

    Raises:
        Malformed, Unsupported: the manifest isn't one that this version reads.
        Conflict: targets isn't the next version, or the release exists.
        Untrusted: targets isn't signed by the publisher, or a grant isn't sealed to this fleet.
        Refused: the manifest isn't the signed one, a sealed file is missing, or a grant is.
    """
    parsed = parse_manifest(manifest)
    path = target_path(name=parsed.name, version=parsed.version)
    with writing(session):
        signed = trust.add_targets(session, raw=targets, files={path: manifest}, keys=keys, now=now)
        if _find(session, parsed.name, parsed.version) is not None:
            raise Conflict(f"release {parsed.name} {parsed.version}: exists; a release never changes")
        _check_files(parsed, store)
        _check_grants(parsed, grants, keys.hpke)
        release = Release(
            name=parsed.name,
            version=parsed.version,
            manifest_sha256=hashlib.sha256(manifest).hexdigest(),
            targets_version=signed.version,
            created_at=now,
        )
        session.add(release)
        session.flush()
        for grant in grants:
            session.add(
                FleetGrant(
                    release_id=release.id,
                    ciphertext_sha256=grant.ciphertext_sha256,
                    counter=grant.counter,
                    sealed_key=grant.sealed_key,
                )
            )
    return release


def _check_files(manifest: Manifest, store: SealedStore) -> None:
    for file in manifest.files:
        found = store.size_bytes(file.ciphertext_sha256)
        if found != file.ciphertext_bytes:
            state = "nothing; upload it first" if found is None else f"{found} bytes"
            raise Refused(
                f"release {manifest.name} {manifest.version}: file {file.name}: expected the sealed file "
                f"{file.ciphertext_sha256} of {file.ciphertext_bytes} bytes, found {state}"
            )


def _check_grants(manifest: Manifest, grants: Sequence[Grant], fleet_key: X25519PrivateKey) -> None:
    """Each file has its grant and each grant opens: a rollout would else fail on it."""
    expected = sorted({file.ciphertext_sha256 for file in manifest.files})
    found = sorted(grant.ciphertext_sha256 for grant in grants)
    if found != expected:
        odd = sorted(set(expected) ^ set(found)) or [sha256 for sha256 in found if found.count(sha256) > 1]
        raise Refused(
            f"release {manifest.name} {manifest.version}: expected one grant for each of its {len(expected)} sealed "
            f"files, found {len(found)}; see file {odd[0][:12]}"
        )
    for grant in grants:
        open_grant(grant, fleet_key, context=_context(manifest.name, manifest.version))


def _context(name: str, version: int) -> GrantContext:
    return GrantContext(release=name, version=version, recipient=FLEET)


def _find(session: Session, name: str, version: int) -> Release | None:
    return session.scalar(select(Release).where(Release.name == name, Release.version == version))
