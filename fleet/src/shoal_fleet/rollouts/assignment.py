"""With which keys does a device get a release, and with what known of how to run it?

The fleet holds each content key wrapped, and opens it only here, to seal it to a device. A device that is revoked gets
nothing, whoever asks.
"""

from collections.abc import Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from shoal_wire import grant
from shoal_wire.grant import GrantContext
from shoal_wire.hybrid_key import HybridPublicKey, parse_hybrid_public
from shoal_wire.messages import Assignment, ProbationLimits, ReleaseReference
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Refused
from shoal_fleet.kek.vault import Vault
from shoal_fleet.releases import content_keys
from shoal_fleet.releases import service as releases
from shoal_fleet.releases.models import Release
from shoal_fleet.rollouts.models import GrantCounter
from shoal_fleet.tuning.service import KnownChoices


class OpenedRelease(NamedTuple):
    """A release with the content keys of its sealed files, for as long as devices are assigned to it."""

    reference: ReleaseReference
    content_keys: Mapping[str, bytes]
    """By the SHA-256 of the sealed file."""
    known: KnownChoices


def open_release(session: Session, release: Release, *, vault: Vault) -> OpenedRelease:
    """Open the content keys that the publisher gave the fleet.

    Raises:
        BrokenState: one doesn't open.
    """
    return OpenedRelease(
        reference=ReleaseReference(release.name, release.version, release.manifest_sha256),
        content_keys=content_keys.read(session, release, vault=vault),
        known=KnownChoices(session, releases.read_manifest(session, release)),
    )


def assign(session: Session, opened: OpenedRelease, *, device: Device, probation: ProbationLimits) -> Assignment:
    """Seal the keys of a release to a device, under counters above all that the device was ever given.

    What boards of its kind found out about the release's models goes along.

    Raises:
        Refused: the device is revoked.
    """
    if device.revoked_at is not None:
        raise Refused(f"device {device.name!r} ({device.id}): is revoked, so it gets no content keys any more")
    recipient_key = _recipient_key(device)
    reference = opened.reference
    context = GrantContext(release=reference.release, version=reference.version, recipient=device.id)
    counters = _count_up(session, device, files=list(opened.content_keys))
    grants = tuple(
        grant.make_grant(
            content_key, recipient_key, context=context, ciphertext_sha256=digest, counter=counters[digest]
        )
        for digest, content_key in opened.content_keys.items()
    )
    return Assignment(
        release=reference.release,
        version=reference.version,
        manifest_sha256=reference.manifest_sha256,
        grants=grants,
        probation=probation,
        known=opened.known.of(device.fingerprint),
    )


def _recipient_key(device: Device) -> X25519PublicKey | HybridPublicKey:
    if device.hybrid_key is not None:
        return parse_hybrid_public(device.hybrid_key, what=f"hybrid key of device {device.id}")
    return grant.parse_hpke_public(device.hpke_key, what=f"HPKE key of device {device.id}")


def _count_up(session: Session, device: Device, *, files: list[str]) -> Mapping[str, int]:
    known = {
        row.ciphertext_sha256: row
        for row in session.scalars(
            select(GrantCounter).where(GrantCounter.device_id == device.id, GrantCounter.ciphertext_sha256.in_(files))
        )
    }
    for digest in files:
        row = known.get(digest)
        if row is None:
            row = known[digest] = GrantCounter(device_id=device.id, ciphertext_sha256=digest, counter=0)
            session.add(row)
        row.counter += 1
    return {digest: known[digest].counter for digest in files}
