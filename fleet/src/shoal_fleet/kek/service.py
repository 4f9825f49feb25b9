"""How is the vault opened, how does it get another wrapping key, and which private keys does it keep?"""

import logging
import secrets
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from shoal_fleet.errors import BadConfiguration, BrokenState, Conflict
from shoal_fleet.kek.models import FleetSecret, WrappingKey
from shoal_fleet.kek.schemes import KEY_FILE, KeyEncryptionKey, lies_beside, open_kek
from shoal_fleet.kek.vault import WRAPPING_KEY_BYTES, Vault

_ONLY = 1

_log = logging.getLogger(__name__)


def unlock(session: Session, *, uri: str, state: Path, now: float) -> Vault:
    """The vault of this database. A new one gets one, in the caller's transaction, which must be one that writes then.

    Args:
        uri: of the key-encryption key; empty stands for the one that the database names, or a key file at first.

    Raises:
        BadConfiguration: the key can't be reached, or is another one.
    """
    row = find_wrapping_key(session)
    named = uri or (row.kek if row else KEY_FILE)
    if lies_beside(named, state=state):
        _log.warning(
            "the key-encryption key %s lies in the state folder: who copies both has all keys of the fleet; leave it "
            "out of back-ups, and move it with `shoal-fleet kek rotate --to URI`",
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


def read_or_make_secret_key(
    session: Session, name: str, make: Callable[[], bytes], *, vault: Vault, now: float
) -> bytes:
    """The same; where there is none, what `make` returns, which is kept in the caller's transaction.

    Raises:
        BrokenState, Conflict: as `read_secret_key` and `keep_secret_key`.
    """
    kept = read_secret_key(session, name, vault=vault)
    if kept is None:
        kept = make()
        keep_secret_key(session, name, kept, vault=vault, now=now)
    return kept


def keep_secret_key(session: Session, name: str, key: bytes, *, vault: Vault, now: float) -> None:
    """Keep a new private key of the fleet, in the caller's transaction.

    Raises:
        Conflict: the wrapping key was changed since the vault was opened. What it wraps would never open again.
    """
    _check_in_force(session, vault)
    session.add(FleetSecret(name=name, wrapped=vault.wrap(key, context=_context(name)), created_at=now))
    session.flush()


def move_secret_key(session: Session, name: str, *, to: str, vault: Vault) -> None:
    """Put a private key, which must be there, in the place of another, which is gone then. In the caller's transaction.

    Raises:
        BrokenState: its row doesn't open.
    """
    row = session.get_one(FleetSecret, name)
    wrapped = vault.wrap(vault.unwrap(row.wrapped, context=_context(name)), context=_context(to))
    session.merge(FleetSecret(name=to, wrapped=wrapped, created_at=row.created_at))
    session.delete(row)
    session.flush()


def forget_secret_key(session: Session, name: str) -> None:
    """Remove a private key, if it is there, in the caller's transaction. Needs no vault."""
    session.execute(delete(FleetSecret).where(FleetSecret.name == name))


def list_secret_keys(session: Session) -> frozenset[str]:
    """Names of the private keys that are kept. Needs no vault."""
    return frozenset(session.scalars(select(FleetSecret.name)))


def rewrap_secret_keys(session: Session, *, old: Vault, new: Vault) -> int:
    """Wrap every private key anew, in the caller's transaction; returns how many."""
    rows = session.scalars(select(FleetSecret)).all()
    for row in rows:
        context = _context(row.name)
        row.wrapped = new.wrap(old.unwrap(row.wrapped, context=context), context=context)
    return len(rows)


def _check_in_force(session: Session, vault: Vault) -> None:
    row = session.scalars(select(FleetSecret).limit(1)).first()
    if row is None:
        return
    try:
        vault.unwrap(row.wrapped, context=_context(row.name))
    except BrokenState:
        raise Conflict(
            f"fleet key {row.name}: doesn't open under the wrapping key that this program began by; nothing was kept. "
            "Where `shoal-fleet kek show` says that it was changed just now, run this again; else restore the database"
        ) from None


def _context(name: str) -> tuple[str, str]:
    return "fleet key", name
