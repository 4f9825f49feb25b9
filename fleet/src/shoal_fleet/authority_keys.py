"""How are the private keys of the certificate authorities kept?

Wrapped by the vault, as PKCS#8 in DER, one row for each, named by its number. A key is committed before the certificate
of its authority is written: a creation that was cut short is done again with the same key. An authority is retired once
its row is gone, which can be seen, and done, without the key-encryption key.
"""

from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key
from sqlalchemy.orm import Session

from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import BrokenState
from shoal_fleet.kek.service import forget_secret_key, list_secret_keys, read_or_make_secret_key, read_secret_key
from shoal_fleet.kek.vault import Vault
from shoal_fleet.pki.authorities import MOST, Authorities, AuthorityKeys, add_successor, next_number
from shoal_fleet.pki.authority import CERTIFICATE_FILE, Authority
from shoal_fleet.pki.errors import BrokenAuthority

_FIRST = 1


def open_authorities(folder: Path, sessions: Sessions, *, vault: Vault, now: float) -> Authorities:
    """The fleet's authorities; the first is made where there is none yet, and on disk when this returns.

    Raises:
        BrokenAuthority: a certificate, or the key of the one that issues, is missing or damaged.
        BrokenState: a row doesn't open.
    """
    if not (folder / CERTIFICATE_FILE).exists():
        _check_first(folder, sessions)
        Authority.create(
            folder,
            key=_keep(sessions, _FIRST, vault=vault, now=now),
            now=datetime.fromtimestamp(now, UTC),
        )
    with sessions() as session:
        return Authorities.load(folder, keys=_read(session, vault=vault))


def _check_first(folder: Path, sessions: Sessions) -> None:
    """The first alone may have a key and no certificate: its creation was cut short. Any other had one."""
    with sessions() as session:
        others = list_kept(session) - {_FIRST}
    if others:
        names = ", ".join(map(str, sorted(others)))
        raise BrokenAuthority(
            f"{folder}: expected the certificates of authority {names}, whose keys are in the database, found none; "
            "restore database and state folder from the same back-up"
        )


def follow(folder: Path, sessions: Sessions, *, vault: Vault, now: float) -> Authority:
    """Make the authority that follows the newest; it issues from the server's next start on.

    Raises:
        BrokenAuthority: there is none that it could follow, or there were too many.
        BrokenState: a row doesn't open.
    """
    _keep(sessions, next_number(folder), vault=vault, now=now)
    with sessions() as session:
        keys = _read(session, vault=vault)
    return add_successor(folder, keys=keys, now=datetime.fromtimestamp(now, UTC))


def list_kept(session: Session) -> frozenset[int]:
    """Numbers of the authorities whose keys are rows. Needs no key-encryption key."""
    names = list_secret_keys(session)
    return frozenset(number for number in range(_FIRST, MOST + 1) if row_name(number) in names)


def forget(session: Session, number: int) -> None:
    """Remove the key of an authority, in the caller's transaction. Needs no key-encryption key."""
    forget_secret_key(session, row_name(number))


def row_name(number: int) -> str:
    """Name of the row with the key of that authority."""
    return f"authority-{number}"


def encode(key: ec.EllipticCurvePrivateKey) -> bytes:
    """As it is wrapped."""
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _keep(sessions: Sessions, number: int, *, vault: Vault, now: float) -> ec.EllipticCurvePrivateKey:
    """The key of an authority; made where there is none. Committed when this returns."""

    def make() -> bytes:
        return encode(ec.generate_private_key(ec.SECP256R1()))

    with sessions() as session, writing(session):
        return _decode(number, read_or_make_secret_key(session, row_name(number), make, vault=vault, now=now))


def _read(session: Session, *, vault: Vault) -> AuthorityKeys:
    found = {number: read_secret_key(session, row_name(number), vault=vault) for number in sorted(list_kept(session))}
    return {number: _decode(number, der) for number, der in found.items() if der is not None}


def _decode(number: int, der: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_der_private_key(der, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BrokenState(f"fleet key {row_name(number)}: expected one on P-256, found {type(key).__name__}")
    return key
