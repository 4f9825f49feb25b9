"""How do private keys that earlier versions kept in plain files come under the vault?

In the transaction that a start begins with, the key of each file becomes a row. Once that is committed, the file is
overwritten with zeros and removed: whenever power goes, the file or the row is there. Where both are, the row counts.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from sqlalchemy.orm import Session

from shoal_fleet import authority_keys
from shoal_fleet.audit.checkpoints import KEY_NAME
from shoal_fleet.errors import BrokenState
from shoal_fleet.kek.service import keep_secret_key, read_secret_key
from shoal_fleet.kek.vault import Vault
from shoal_fleet.keys import HPKE
from shoal_fleet.pki.authorities import MOST
from shoal_fleet.pki.files import sync_folder
from shoal_fleet.signing_keys import NAMES, next_name


class PlainFile(NamedTuple):
    """Where a private key was, below the state folder, and the row that it becomes."""

    path: str
    row: str


def authority_file(number: int) -> PlainFile:
    """Where the key of that authority was."""
    path = "authority/ca.key" if number == 1 else f"authority/{number}/ca.key"
    return PlainFile(path, authority_keys.row_name(number))


FILES = (
    *(PlainFile(f"keys/{name}.pem", name) for name in NAMES),
    *(PlainFile(f"keys/next/{name}.pem", next_name(name)) for name in NAMES),
    PlainFile("keys/hpke.pem", HPKE),
    PlainFile("keys/audit.pem", KEY_NAME),
    *(authority_file(number) for number in range(1, MOST + 1)),
)
"""All private keys that were ever kept in the clear."""


def take_over(session: Session, state: Path, *, vault: Vault, now: float) -> None:
    """Make a row of each file, in the caller's transaction. Call `forget` once that is committed.

    Raises:
        BrokenState: a file without a row holds no key of its kind, or was wiped, so that its row should be there; or a
            file with a row holds another key: it is left as it is.
        Conflict: the wrapping key was changed since the vault was opened.
    """
    for file in FILES:
        path = state / file.path
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            continue
        kept = read_secret_key(session, file.row, vault=vault)
        if kept is None:
            keep_secret_key(session, file.row, _parse(path, content, row=file.row), vault=vault, now=now)
        elif _holds_another(path, content, row=file.row, kept=kept):
            raise BrokenState(
                f"{path}: holds another key than the database, which counts; if this file isn't needed any more, "
                "remove it, else restore the state folder whole"
            )


def forget(state: Path) -> None:
    """Wipe and remove all of these files, with what a write that was cut short left beside them."""
    for file in FILES:
        wipe(state / file.path)


def wipe(path: Path) -> None:
    """Overwrite a file with zeros, which helps where the disk writes in place, and remove it, if it is there.

    What a write that was cut short left beside it goes too. All is on disk when this returns.
    """
    for one in (path, *path.parent.glob(f".{path.name}.*")):
        try:
            with one.open("r+b", buffering=0) as file:
                status = os.fstat(file.fileno())
                if status.st_nlink == 1:  # else a back-up made of hard links has the very same file
                    file.write(bytes(status.st_size))
                    os.fsync(file.fileno())
        except FileNotFoundError:
            continue
        one.unlink(missing_ok=True)
        sync_folder(path.parent)


def _holds_another(path: Path, content: bytes, *, row: str, kept: bytes) -> bool:
    """What is no key, as wiping leaves it when power goes, is none that could be lost."""
    try:
        _load(path, content)
    except BrokenState:
        return False
    try:
        return _parse(path, content, row=row) != kept
    except BrokenState:
        return True


def _parse(path: Path, content: bytes, *, row: str) -> bytes:
    """The private key in a file, as its row has it."""
    key = _load(path, content)
    expected = _KINDS.get(row.partition("-")[0], Ed25519PrivateKey)
    if isinstance(key, expected):
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return authority_keys.encode(key)
        if isinstance(key, Ed25519PrivateKey | X25519PrivateKey):
            return key.private_bytes_raw()
    raise BrokenState(f"{path}: expected an {expected.__name__}, found {type(key).__name__}")


def _load(path: Path, content: bytes) -> PrivateKeyTypes:
    if content and not any(content):
        raise BrokenState(
            f"{path}: was wiped when its key went into the database, which has none; where `shoal-fleet authority "
            "retire` was cut short, run it again; else restore database and state folder from the same back-up"
        )
    try:
        return load_pem_private_key(content, password=None)
    except (ValueError, TypeError) as error:
        raise BrokenState(f"{path}: expected a private key in PEM, found none ({error})") from None


_KINDS: Mapping[str, type] = {"hpke": X25519PrivateKey, "authority": ec.EllipticCurvePrivateKey}
"""Kind of key by the first word of its row's name, where it isn't Ed25519."""
