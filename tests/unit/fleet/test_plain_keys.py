"""Do private keys that lay in plain files become rows, once, and is nothing lost or left?"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_der_private_key,
)
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import BrokenState
from shoal_fleet.kek.service import list_secret_keys, read_secret_key
from shoal_fleet.kek.vault import Vault
from shoal_fleet.plain_keys import forget, take_over, wipe

from tests.unit.fleet.boards import NOW, close_database, make_database

VAULT = Vault(bytes(32))


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    sessions = make_database()
    yield sessions
    close_database(sessions)


def start(sessions: Sessions, state: Path) -> None:
    with sessions() as session, writing(session):
        take_over(session, state, vault=VAULT, now=NOW)
    forget(state)


def lay(path: Path, key: PrivateKeyTypes) -> bytes:
    """Put a key where an earlier version had it; returns the file's content."""
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pem)
    return pem


def read(sessions: Sessions, name: str) -> bytes | None:
    with sessions() as session:
        return read_secret_key(session, name, vault=VAULT)


@pytest.mark.parametrize(
    ("path", "row"),
    [
        ("keys/snapshot.pem", "snapshot"),
        ("keys/next/assignment.pem", "next-assignment"),
        ("keys/audit.pem", "audit"),
    ],
)
def test_a_signing_key_becomes_a_row_and_its_file_is_gone(
    sessions: Sessions, tmp_path: Path, path: str, row: str
) -> None:
    key = Ed25519PrivateKey.generate()
    lay(tmp_path / path, key)
    start(sessions, tmp_path)
    assert read(sessions, row) == key.private_bytes_raw()
    assert not (tmp_path / path).exists()
    start(sessions, tmp_path)
    assert read(sessions, row) == key.private_bytes_raw()


@pytest.mark.parametrize(("path", "row"), [("authority/ca.key", "authority-1"), ("authority/3/ca.key", "authority-3")])
def test_so_does_that_of_an_authority(sessions: Sessions, tmp_path: Path, path: str, row: str) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    lay(tmp_path / path, key)
    start(sessions, tmp_path)
    der = read(sessions, row)
    assert der is not None
    loaded = load_der_private_key(der, password=None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    assert loaded.private_numbers() == key.private_numbers()
    assert not (tmp_path / path).exists()


def test_the_file_is_still_there_when_its_transaction_fails(sessions: Sessions, tmp_path: Path) -> None:
    pem = lay(tmp_path / "keys/hpke.pem", X25519PrivateKey.generate())
    with pytest.raises(ZeroDivisionError), sessions() as session, writing(session):
        take_over(session, tmp_path, vault=VAULT, now=NOW)
        raise ZeroDivisionError
    assert (tmp_path / "keys/hpke.pem").read_bytes() == pem
    assert read(sessions, "hpke") is None


def test_a_file_that_was_wiped_and_not_yet_removed_is_removed(sessions: Sessions, tmp_path: Path) -> None:
    key, path = Ed25519PrivateKey.generate(), tmp_path / "keys/snapshot.pem"
    lay(path, key)
    start(sessions, tmp_path)
    path.write_bytes(bytes(119))
    start(sessions, tmp_path)
    assert not path.exists()
    assert read(sessions, "snapshot") == key.private_bytes_raw()


def test_a_wiped_file_without_its_row_is_told(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "keys/snapshot.pem"
    path.parent.mkdir()
    path.write_bytes(bytes(119))
    with pytest.raises(BrokenState, match=r"snapshot\.pem: was wiped .* restore database"):
        start(sessions, tmp_path)
    assert path.exists()


def test_a_file_with_another_key_than_its_row_is_left_and_told(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "authority/ca.key"
    lay(path, ec.generate_private_key(ec.SECP256R1()))
    start(sessions, tmp_path)
    other = lay(path, ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(BrokenState, match=r"ca\.key: holds another key than the database"):
        start(sessions, tmp_path)
    assert path.read_bytes() == other


@pytest.mark.parametrize(
    ("path", "key", "expected"),
    [
        ("keys/hpke.pem", Ed25519PrivateKey.generate(), "an X25519PrivateKey"),
        ("keys/snapshot.pem", X25519PrivateKey.generate(), "an Ed25519PrivateKey"),
        ("authority/ca.key", Ed25519PrivateKey.generate(), "an EllipticCurvePrivateKey"),
    ],
    ids=["hpke", "snapshot", "authority"],
)
def test_a_key_of_another_kind_is_refused_and_left(
    sessions: Sessions, tmp_path: Path, path: str, key: PrivateKeyTypes, expected: str
) -> None:
    lay(tmp_path / path, key)
    with pytest.raises(BrokenState, match=f"expected {expected}"):
        start(sessions, tmp_path)
    assert (tmp_path / path).exists()
    with sessions() as session:
        assert list_secret_keys(session) == frozenset()


def test_a_damaged_file_is_refused_and_left(sessions: Sessions, tmp_path: Path) -> None:
    path = tmp_path / "keys/assignment.pem"
    path.parent.mkdir()
    path.write_bytes(b"-----BEGIN")
    with pytest.raises(BrokenState, match=r"assignment\.pem: expected a private key"):
        start(sessions, tmp_path)
    assert path.read_bytes() == b"-----BEGIN"


def test_what_a_write_that_was_cut_short_left_beside_it_goes_too(sessions: Sessions, tmp_path: Path) -> None:
    lay(tmp_path / "keys/.snapshot.pem.a1b2c3", Ed25519PrivateKey.generate())
    lay(tmp_path / "authority/2/.ca.key.zzz", ec.generate_private_key(ec.SECP256R1()))
    start(sessions, tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_wiping_overwrites_unless_a_back_up_shares_the_file(tmp_path: Path) -> None:
    key, shared = tmp_path / "ca.key", tmp_path / "shared.key"
    for path in (key, shared):
        path.write_bytes(b"secret")
    os.link(shared, tmp_path / "back-up.key")
    with key.open("rb") as still_open:
        wipe(key)
        assert still_open.read() == bytes(6)
    wipe(shared)
    assert (tmp_path / "back-up.key").read_bytes() == b"secret"
    assert [path.name for path in tmp_path.iterdir()] == ["back-up.key"]
