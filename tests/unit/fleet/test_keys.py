"""Do the online keys stay the same, and stay private?"""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import BrokenState
from shoal_fleet.kek.models import FleetSecret
from shoal_fleet.kek.vault import Vault
from shoal_fleet.keys import PLAIN_HPKE_FILE, OnlineKeys, forget_plain_key
from shoal_wire.grant import hpke_public_text
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, close_database, make_database

VAULT = Vault(bytes(32))


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    sessions = make_database()
    yield sessions
    close_database(sessions)


def load(sessions: Sessions, folder: Path, *, vault: Vault = VAULT) -> OnlineKeys:
    with sessions() as session, writing(session):
        return OnlineKeys.load_or_create(folder, session, vault=vault, now=NOW)


def plain_hpke(folder: Path) -> X25519PrivateKey:
    """What a fleet of an earlier version had on its disk."""
    key = X25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    folder.mkdir(exist_ok=True)
    (folder / PLAIN_HPKE_FILE).write_bytes(pem)
    return key


def test_keys_are_made_once_and_read_again(sessions: Sessions, tmp_path: Path) -> None:
    made = load(sessions, tmp_path / "keys").public
    assert load(sessions, tmp_path / "keys").public == made
    assert len({made.snapshot, made.timestamp, made.assignment, made.hpke, made.hybrid}) == 5


def test_only_the_owner_may_read_them(sessions: Sessions, tmp_path: Path) -> None:
    load(sessions, tmp_path / "keys")
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys").iterdir()} == {0o600}


def test_keys_that_open_content_keys_are_nowhere_in_the_clear(sessions: Sessions, tmp_path: Path) -> None:
    keys = load(sessions, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"snapshot.pem", "timestamp.pem", "assignment.pem"}
    with sessions() as session:
        rows = [row.wrapped for row in session.scalars(select(FleetSecret))]
    assert len(rows) == 2
    assert not any(keys.recipient.x25519.private_bytes_raw() in row for row in rows)


def test_refuses_another_wrapping_key(sessions: Sessions, tmp_path: Path) -> None:
    load(sessions, tmp_path)
    with pytest.raises(BrokenState, match="doesn't open under the fleet's wrapping key"):
        load(sessions, tmp_path, vault=Vault(b"\1" * 32))


def test_key_that_lay_in_the_clear_is_wrapped_and_then_removed(sessions: Sessions, tmp_path: Path) -> None:
    plain = plain_hpke(tmp_path)
    assert load(sessions, tmp_path).public.hpke == hpke_public_text(plain.public_key())
    forget_plain_key(tmp_path)
    assert not (tmp_path / PLAIN_HPKE_FILE).exists()
    assert load(sessions, tmp_path).public.hpke == hpke_public_text(plain.public_key())


def test_plain_key_is_still_there_when_its_transaction_fails(sessions: Sessions, tmp_path: Path) -> None:
    plain = plain_hpke(tmp_path)
    with pytest.raises(ZeroDivisionError), sessions() as session, writing(session):
        OnlineKeys.load_or_create(tmp_path, session, vault=VAULT, now=NOW)
        raise ZeroDivisionError
    assert load(sessions, tmp_path).public.hpke == hpke_public_text(plain.public_key())


def test_refuses_a_plain_key_of_another_kind(sessions: Sessions, tmp_path: Path) -> None:
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / PLAIN_HPKE_FILE).write_bytes(pem)
    with pytest.raises(BrokenState, match=r"hpke\.pem: expected an X25519 key"):
        load(sessions, tmp_path)


def test_refuses_a_signing_key_of_another_kind(sessions: Sessions, tmp_path: Path) -> None:
    plain_hpke(tmp_path)
    (tmp_path / PLAIN_HPKE_FILE).rename(tmp_path / "snapshot.pem")
    with pytest.raises(BrokenState, match=r"snapshot\.pem: expected an Ed25519 key"):
        load(sessions, tmp_path)


def test_refuses_a_damaged_file_and_leaves_it(sessions: Sessions, tmp_path: Path) -> None:
    load(sessions, tmp_path)
    (tmp_path / "assignment.pem").write_bytes(b"-----BEGIN")
    with pytest.raises(BrokenState, match=r"assignment\.pem"):
        load(sessions, tmp_path)
    assert (tmp_path / "assignment.pem").read_bytes() == b"-----BEGIN"
