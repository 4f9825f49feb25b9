"""Are API tokens known by their digest alone, and refused once revoked?"""

from collections.abc import Iterator

import pytest
from shoal_fleet.access.models import ApiToken, Role
from shoal_fleet.access.service import authenticate, create_token, revoke_token
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, NotAllowed, NotFound
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, close_database, make_database


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    database = make_database()
    yield database
    close_database(database)


def test_token_tells_who_asks(sessions: Sessions) -> None:
    with sessions() as session:
        token = create_token(session, name="ci", role=Role.READ, now=NOW)
    with sessions() as session:
        caller = authenticate(session, token, now=NOW)
    assert (caller.name, caller.role) == ("ci", Role.READ)


def test_only_the_digest_is_kept(sessions: Sessions) -> None:
    with sessions() as session:
        token = create_token(session, name="ci", role=Role.READ, now=NOW)
        row = session.scalars(select(ApiToken)).one()
    assert token not in (row.name, row.secret_sha256)
    assert len(token) >= len("shoal_") + 43  # 256 bits in base64


@pytest.mark.parametrize("wrong", ["", "shoal_", "x" * 100_000, "shoal_\N{SNOWMAN}", "' OR 1=1 --"])
def test_refuses_a_token_that_was_never_made(sessions: Sessions, wrong: str) -> None:
    with sessions() as session:
        create_token(session, name="ci", role=Role.ADMIN, now=NOW)
    with sessions() as session, pytest.raises(NotAllowed, match="not known"):
        authenticate(session, wrong, now=NOW)


def test_refuses_a_revoked_token_and_frees_its_name(sessions: Sessions) -> None:
    with sessions() as session:
        token = create_token(session, name="ci", role=Role.ADMIN, now=NOW)
    with sessions() as session:
        revoke_token(session, "ci", now=NOW + 1)
    with sessions() as session, pytest.raises(NotAllowed, match="'ci': revoked"):
        authenticate(session, token, now=NOW + 2)
    with sessions() as session:
        again = create_token(session, name="ci", role=Role.READ, now=NOW + 3)
    with sessions() as session:
        assert authenticate(session, again, now=NOW + 4).role is Role.READ


def test_names_are_unique_and_known(sessions: Sessions) -> None:
    with sessions() as session:
        create_token(session, name="ci", role=Role.ADMIN, now=NOW)
    with sessions() as session, pytest.raises(Conflict):
        create_token(session, name="ci", role=Role.ADMIN, now=NOW)
    with sessions() as session, pytest.raises(NotFound):
        revoke_token(session, "other", now=NOW)


def test_last_use_is_kept_to_the_minute(sessions: Sessions) -> None:
    with sessions() as session:
        token = create_token(session, name="ci", role=Role.READ, now=NOW)
    for at in (NOW + 1, NOW + 30, NOW + 100):
        with sessions() as session:
            authenticate(session, token, now=at)
            found = session.scalars(select(ApiToken.last_used_at)).one()
        assert found == (NOW + 100 if at == NOW + 100 else NOW + 1)
