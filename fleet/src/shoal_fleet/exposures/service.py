"""Which files of which releases can a device open, and where are those still in use?

A device holds the content key of every file that it was ever given a grant for. Two releases may have a sealed file in
common: then both are exposed by it.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.encoding import decode
from shoal_wire.messages import Desired
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.devices.models import Device
from shoal_fleet.releases import service as releases
from shoal_fleet.releases.models import Release, ReleaseKey
from shoal_fleet.rollouts.models import DesiredRow, GrantCounter


class Exposed(NamedTuple):
    """A file whose content key somebody holds who is to have no more."""

    release: str
    version: int
    file: str
    plaintext_sha256: str
    ciphertext_sha256: str
    assigned_devices: int
    """How many devices that aren't revoked are assigned this release."""
    replaced_by: int | None
    """The first later version that has the same plaintext under another key; None where there is none."""


def list_exposed(session: Session, devices: Collection[str]) -> list[Exposed]:
    """What those devices ever got the keys of, by release, newest version first."""
    held = set(
        session.scalars(select(GrantCounter.ciphertext_sha256).where(GrantCounter.device_id.in_(devices)).distinct())
    )
    holding = session.scalars(
        select(Release)
        .join(ReleaseKey, ReleaseKey.release_id == Release.id)
        .where(ReleaseKey.ciphertext_sha256.in_(held), Release.name != AGENT_RELEASE)  # the agent is no secret
        .distinct()
        .order_by(Release.name, Release.version.desc())
    ).all()
    assigned = _count_assigned(session) if holding else Counter[tuple[str, int]]()
    resealed = _Resealed(session, {release.name for release in holding})
    return [
        Exposed(
            release=release.name,
            version=release.version,
            file=file.name,
            plaintext_sha256=file.plaintext_sha256,
            ciphertext_sha256=file.ciphertext_sha256,
            assigned_devices=assigned[release.name, release.version],
            replaced_by=resealed.find(release, file.plaintext_sha256, without=held),
        )
        for release in holding
        for file in releases.read_manifest(session, release).files
        if file.ciphertext_sha256 in held
    ]


def list_revoked(session: Session) -> Sequence[str]:
    """Ids of the devices that are shut out."""
    return session.scalars(select(Device.id).where(Device.revoked_at.is_not(None))).all()


class _Resealed:
    """Finds the version in which a plaintext has a key that isn't exposed."""

    def __init__(self, session: Session, names: Collection[str]) -> None:
        self._versions: dict[str, list[tuple[int, Mapping[str, str]]]] = {name: [] for name in names}
        for release in session.scalars(select(Release).where(Release.name.in_(names)).order_by(Release.version)):
            files = releases.read_manifest(session, release).files
            sealed = {file.plaintext_sha256: file.ciphertext_sha256 for file in files}
            self._versions[release.name].append((release.version, sealed))

    def find(self, release: Release, plaintext_sha256: str, *, without: Collection[str]) -> int | None:
        return next(
            (
                version
                for version, sealed in self._versions[release.name]
                if version > release.version and sealed.get(plaintext_sha256, "") not in {"", *without}
            ),
            None,
        )


def _count_assigned(session: Session) -> Counter[tuple[str, int]]:
    rows = session.scalars(
        select(DesiredRow).join(Device, Device.id == DesiredRow.device_id).where(Device.revoked_at.is_(None))
    )
    return Counter(
        (assignment.release, assignment.version)
        for row in rows
        for assignment in decode(row.document, Desired, what=f"desired document of device {row.device_id}").assignments
    )
