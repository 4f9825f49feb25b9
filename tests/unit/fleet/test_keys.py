"""Do the online keys stay the same, and stay private?"""

from collections.abc import Iterator

import pytest
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import BrokenState, Conflict
from shoal_fleet.kek.models import FleetSecret
from shoal_fleet.kek.service import keep_secret_key, list_secret_keys, move_secret_key, read_secret_key
from shoal_fleet.kek.vault import Vault
from shoal_fleet.keys import OnlineKeys
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, close_database, make_database

VAULT = Vault(bytes(32))
OTHER = Vault(b"\1" * 32)


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    sessions = make_database()
    yield sessions
    close_database(sessions)


def load(sessions: Sessions, *, vault: Vault = VAULT) -> OnlineKeys:
    with sessions() as session, writing(session):
        return OnlineKeys.load_or_create(session, vault=vault, now=NOW)


def test_keys_are_made_once_and_read_again(sessions: Sessions) -> None:
    made = load(sessions).public
    assert load(sessions).public == made
    assert len({made.snapshot, made.timestamp, made.assignment, made.hpke, made.hybrid}) == 5


def test_no_row_holds_a_key_in_the_clear(sessions: Sessions) -> None:
    keys = load(sessions)
    with sessions() as session:
        rows = {row.name: row.wrapped for row in session.scalars(select(FleetSecret))}
    assert rows.keys() == {"snapshot", "timestamp", "assignment", "hpke", "hpke-hybrid"}
    for private in (keys.snapshot, keys.timestamp, keys.recipient.x25519):
        assert not any(private.private_bytes_raw() in row for row in rows.values())


def test_refuses_another_wrapping_key(sessions: Sessions) -> None:
    load(sessions)
    with pytest.raises(BrokenState, match="doesn't open under the fleet's wrapping key"):
        load(sessions, vault=OTHER)


def test_nothing_is_kept_under_a_wrapping_key_that_was_changed_meanwhile(sessions: Sessions) -> None:
    load(sessions)
    with pytest.raises(Conflict, match="run this again"), sessions() as session, writing(session):
        keep_secret_key(session, "new", b"secret", vault=OTHER, now=NOW)
    with sessions() as session:
        assert "new" not in list_secret_keys(session)


@pytest.mark.parametrize("is_there", [True, False], ids=["replaced", "new"])
def test_a_key_that_is_moved_opens_in_its_new_place_alone(sessions: Sessions, is_there: bool) -> None:
    with sessions() as session, writing(session):
        keep_secret_key(session, "coming", b"secret", vault=VAULT, now=NOW)
        if is_there:
            keep_secret_key(session, "present", b"before", vault=VAULT, now=NOW - 1)
        move_secret_key(session, "coming", to="present", vault=VAULT)
    with sessions() as session:
        assert list_secret_keys(session) == {"present"}
        assert read_secret_key(session, "present", vault=VAULT) == b"secret"
