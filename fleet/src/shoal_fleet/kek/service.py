"""How is the vault opened, and how does it get another wrapping key?"""

import logging
import secrets
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.errors import BadConfiguration
from shoal_fleet.kek.models import FleetSecret, WrappingKey
from shoal_fleet.kek.schemes import KEY_FILE, KeyEncryptionKey, lies_beside, open_kek
from shoal_fleet.kek.vault import WRAPPING_KEY_BYTES, Vault

_ONLY = 1

_log = logging.getLogger(__name__)


def unlock(session: Session, *, uri: str, state: Path, now: float) -> Vault:
    """The vault of this database, in the caller's transaction that writes. A new database gets one.

    Args:
        uri: of the key-encryption key; empty stands for the one that the database names, or a key file at first.

    Raises:
        BadConfiguration: the key can't be reached, or is another one.
    """
    row = find_wrapping_key(session)
    named = uri or (row.kek if row else KEY_FILE)
    if lies_beside(named, state=state):
        _log.warning(
            "the key-encryption key %s lies in the state folder: who copies both can read the models; leave it out of "
            "back-ups, and move it with `shoal-fleet kek rotate --to URI`",
            named,
        )
    kek = open_kek(named, state=state, may_make=row is None)
    if row is None:
        vault, row = new_vault(kek, uri=named, now=now)
        session.add(row)
        return vault
    try:
        return Vault(kek.unwrap(row.wrapped))
    except BadConfiguration as error:
        if named == row.kek:
            raise
        raise BadConfiguration(
            f"{error}: they are under {row.kek}; configure that as kek, or move to another with `shoal-fleet kek "
            f"rotate --kek {row.kek} --to {named}`"
        ) from None


def new_vault(kek: KeyEncryptionKey, *, uri: str, now: float) -> tuple[Vault, WrappingKey]:
    """A vault with a fresh wrapping key, and the row by which it is found again.

    Raises:
        BadConfiguration: the key doesn't unwrap what it wrapped, or can't be used at all.
    """
    key = secrets.token_bytes(WRAPPING_KEY_BYTES)
    wrapped = kek.wrap(key)
    if kek.unwrap(wrapped) != key:
        raise BadConfiguration(f"kek {uri}: unwraps something else than it wrapped; nothing was changed")
    return Vault(key), WrappingKey(id=_ONLY, kek=uri, wrapped=wrapped, created_at=now)


def find_wrapping_key(session: Session) -> WrappingKey | None:
    """The row of the present wrapping key; None in a database that never had one."""
    return session.get(WrappingKey, _ONLY)


def read_secret_key(session: Session, name: str, *, vault: Vault) -> bytes | None:
    """A private key of the fleet, None where there is none of that name.

    Raises:
        BrokenState: its row doesn't open.
    """
    row = session.get(FleetSecret, name)
    return None if row is None else vault.unwrap(row.wrapped, context=_context(name))


def keep_secret_key(session: Session, name: str, key: bytes, *, vault: Vault, now: float) -> None:
    """Keep a private key of the fleet, in the caller's transaction."""
    session.add(FleetSecret(name=name, wrapped=vault.wrap(key, context=_context(name)), created_at=now))


def rewrap_secret_keys(session: Session, *, old: Vault, new: Vault) -> int:
    """Wrap every private key anew, in the caller's transaction; returns how many."""
    rows = session.scalars(select(FleetSecret)).all()
    for row in rows:
        context = _context(row.name)
        row.wrapped = new.wrap(old.unwrap(row.wrapped, context=context), context=context)
    return len(rows)


def _context(name: str) -> tuple[str, str]:
    return "fleet key", name
