"""How does the fleet keep the content keys that a publisher hands over?

One row for each sealed file of a release, wrapped by the vault: who has the database alone can open no release. A key
is opened where a device is assigned, and where all rows get another wrapping key.
"""

from collections.abc import Mapping, Sequence

from shoal_wire.grant import FLEET, Grant, GrantContext, RecipientKeys, open_grant
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.kek.vault import Vault
from shoal_fleet.releases.models import FleetGrant, Release, ReleaseKey


def open_grants(grants: Sequence[Grant], keys: RecipientKeys, *, name: str, version: int) -> dict[str, bytes]:
    """The content keys of a release that a publisher sealed to the fleet, by the digest of the sealed file.

    Raises:
        Malformed, Unsupported, Untrusted: a grant doesn't open.
    """
    context = GrantContext(release=name, version=version, recipient=FLEET)
    return {grant.ciphertext_sha256: open_grant(grant, keys, context=context) for grant in grants}


def keep(session: Session, release: Release, content_keys: Mapping[str, bytes], *, vault: Vault) -> None:
    """Keep the content keys of a release that has its id, in the caller's transaction."""
    for digest, content_key in content_keys.items():
        wrapped = vault.wrap(content_key, context=_context(release.id, digest))
        session.add(ReleaseKey(release_id=release.id, ciphertext_sha256=digest, wrapped=wrapped))


def read(session: Session, release: Release, *, vault: Vault) -> dict[str, bytes]:
    """Content key of each sealed file of a release by the digest of the sealed file. Keep them no longer than needed.

    Raises:
        BrokenState: a row doesn't open.
    """
    rows = session.scalars(select(ReleaseKey).where(ReleaseKey.release_id == release.id))
    return {
        row.ciphertext_sha256: vault.unwrap(row.wrapped, context=_context(release.id, row.ciphertext_sha256))
        for row in rows
    }


def take_over_grants(session: Session, keys: RecipientKeys, *, vault: Vault) -> int:
    """Wrap what an earlier version kept as the publisher's grants, in the caller's transaction; returns how many.

    Raises:
        Untrusted: sealed to another key of the fleet, as after a restore of the database alone.
    """
    rows = session.execute(select(FleetGrant, Release).join(Release, Release.id == FleetGrant.release_id)).all()
    for row, release in rows:
        grant = Grant(row.ciphertext_sha256, row.counter, row.sealed_key)
        keep(session, release, open_grants([grant], keys, name=release.name, version=release.version), vault=vault)
        session.delete(row)
    return len(rows)


def rewrap(session: Session, *, old: Vault, new: Vault) -> int:
    """Wrap every content key anew, in the caller's transaction; returns how many. Sealed files stay as they are."""
    rows = session.scalars(select(ReleaseKey)).all()
    for row in rows:
        context = _context(row.release_id, row.ciphertext_sha256)
        row.wrapped = new.wrap(old.unwrap(row.wrapped, context=context), context=context)
    return len(rows)


def _context(release_id: int, ciphertext_sha256: str) -> tuple[str, int, str]:
    return "content key", release_id, ciphertext_sha256
