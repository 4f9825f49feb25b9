"""How does the fleet change its key-encryption key?

All wrapped rows get another wrapping key in one transaction: whenever power goes, everything is under the old key or
everything is under the new one, and the database names the one that counts. Sealed files stay as they are.
"""

import os
from collections.abc import Callable, Mapping

import msgspec
from sqlalchemy.orm import Session

from shoal_fleet.database import make_sessions, writing
from shoal_fleet.errors import BrokenState
from shoal_fleet.kek import service as kek
from shoal_fleet.kek.schemes import lies_beside, open_kek
from shoal_fleet.kek.scrubbing import note_due, scrub_if_due
from shoal_fleet.kek.vault import Vault
from shoal_fleet.releases import content_keys
from shoal_fleet.state import StatePaths, check_made, lock_state, open_database, open_keys, unlock

_REWRAPPERS: Mapping[str, Callable[[Session, Vault, Vault], int]] = {
    "secret_keys": lambda session, old, new: kek.rewrap_secret_keys(session, old=old, new=new),
    "content_keys": lambda session, old, new: content_keys.rewrap(session, old=old, new=new),
}
"""Every table with wrapped rows."""


class KekView(msgspec.Struct, frozen=True):
    """Which key-encryption key counts."""

    kek: str
    """Its URI."""
    since: float
    """When the present wrapping key was made, Unix seconds."""
    is_beside_database: bool
    """Whether who copies the state folder copies the key with it."""


class Rotated(msgspec.Struct, frozen=True):
    """What a rotation did."""

    before: str
    kek: str
    rewrapped: dict[str, int]
    """Rows by kind."""
    is_scrubbed: bool
    """Whether the database's files are rid of the rows as they were; else the next start tries again."""


def rotate(paths: StatePaths, *, kek_uri: str, to: str, now: float) -> Rotated:
    """Put every secret of the fleet under the key-encryption key `to`. The server must not run.

    Raises:
        NotFound: there is no fleet.
        Conflict: it runs.
        BadConfiguration: one of the two keys can't be used; nothing was changed.
    """
    check_made(paths)
    lock = lock_state(paths)
    engine = open_database(paths)
    try:
        vault = unlock(paths, kek_uri=kek_uri, now=now)
        open_keys(paths, make_sessions(engine), vault=vault, now=now)
        with make_sessions(engine)() as session, writing(session):
            before, counts = show(session, paths).kek, _rewrap(session, paths, old=vault, to=to, now=now)
            note_due(session)
        return Rotated(before=before, kek=to, rewrapped=counts, is_scrubbed=scrub_if_due(engine))
    finally:
        engine.dispose()
        os.close(lock)


def show(session: Session, paths: StatePaths) -> KekView:
    """Which key-encryption key the database names.

    Raises:
        BrokenState: none.
    """
    row = kek.find_wrapping_key(session)
    if row is None:
        raise BrokenState(
            f"{paths.database}: names no key-encryption key yet; start the fleet once, or `shoal-fleet init`"
        )
    return KekView(row.kek, row.created_at, lies_beside(row.kek, state=paths.folder))


def _rewrap(session: Session, paths: StatePaths, *, old: Vault, to: str, now: float) -> dict[str, int]:
    """Wrap every row by a new vault, whose row takes the place of the old one; returns how many by kind."""
    new, row = kek.new_vault(open_kek(to, state=paths.folder, may_make=True), uri=to, now=now)
    counts = {name: rewrap(session, old, new) for name, rewrap in _REWRAPPERS.items()}
    session.merge(row)
    return counts
