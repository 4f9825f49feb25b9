"""Which releases are there, and how does a new one come in?"""

import hashlib
from collections.abc import Mapping, Sequence

from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.grant import Grant
from shoal_wire.manifest import Manifest, parse_manifest, target_path
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access.projects import claim_release_name
from shoal_fleet.access.roles import EVERYWHERE, Reach
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, NotFound, Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases import content_keys
from shoal_fleet.releases.models import Release
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.trust import service as trust
from shoal_fleet.trust.service import MetadataUpdate


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


def create_release(
    session: Session,
    *,
    targets: bytes | None,
    manifest: bytes,
    grants: Sequence[Grant],
    store: SealedStore,
    keys: OnlineKeys,
    issuer: str,
    now: float,
    bins: Mapping[str, bytes] = {},
    project: str | None = None,
    within: Reach = frozenset({EVERYWHERE}),
    actor: str = audit.FLEET,
) -> Release:
    """Take a signed release whose sealed files were uploaded before. It is listed in `targets`, or in one of `bins`.

    `issuer` is the fingerprint of the authority that issues.

    Raises:
        Malformed, Unsupported: the manifest isn't one that this version reads.
        WrongRole: the project, or the only one that has this name, isn't `within` reach.
        Conflict: metadata isn't the next version, the release exists, or another project has its name.
        Untrusted: metadata isn't signed by the publisher, or a grant isn't sealed to this fleet.
        Refused: the manifest isn't the signed one, a sealed file is missing, or a grant is.
    """
    parsed = parse_manifest(manifest)
    if parsed.name == AGENT_RELEASE and parsed.agent is None:
        raise Refused(f"release {parsed.name}: this name is kept for releases of the agent itself")
    path = target_path(name=parsed.name, version=parsed.version)
    with writing(session):
        claim_release_name(session, parsed.name, project=project, within=within)
        signed = MetadataUpdate(targets=targets, bins=bins, files={path: manifest})
        targets_version = trust.accept(session, signed, keys=keys, issuer=issuer, now=now)
        if _find(session, parsed.name, parsed.version) is not None:
            raise Conflict(f"release {parsed.name} {parsed.version}: exists; a release never changes")
        _check_files(parsed, store)
        _check_grants(parsed, grants)
        opened = content_keys.open_grants(grants, keys.recipient, name=parsed.name, version=parsed.version)
        release = Release(
            name=parsed.name,
            version=parsed.version,
            manifest_sha256=hashlib.sha256(manifest).hexdigest(),
            targets_version=targets_version,
            created_at=now,
        )
        session.add(release)
        session.flush()
        content_keys.keep(session, release, opened, vault=keys.vault)
        subject = f"{release.name}/{release.version}"
        detail = {"manifest_sha256": release.manifest_sha256}
        audit.append(session, actor=actor, action="release.added", subject=subject, detail=detail, now=now)
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


def _check_grants(manifest: Manifest, grants: Sequence[Grant]) -> None:
    """Each file has its grant: a rollout would else fail on it."""
    expected = sorted({file.ciphertext_sha256 for file in manifest.files})
    found = sorted(grant.ciphertext_sha256 for grant in grants)
    if found != expected:
        odd = sorted(set(expected) ^ set(found)) or [sha256 for sha256 in found if found.count(sha256) > 1]
        raise Refused(
            f"release {manifest.name} {manifest.version}: expected one grant for each of its {len(expected)} sealed "
            f"files, found {len(found)}; see file {odd[0][:12]}"
        )


def _find(session: Session, name: str, version: int) -> Release | None:
    return session.scalar(select(Release).where(Release.name == name, Release.version == version))
