"""Are API tokens known by their digest alone, and refused once revoked or past their end?"""

from collections.abc import Iterator

import pytest
from shoal_fleet.access.models import ApiToken
from shoal_fleet.access.projects import create_project
from shoal_fleet.access.roles import EVERYWHERE, Held, Role
from shoal_fleet.access.service import authenticate, create_token, list_tokens, revoke_token
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, NotAllowed, NotFound, Refused
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, close_database, make_database


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    database = make_database()
    yield database
    close_database(database)


def make(sessions: Sessions, name: str, *roles: Role, project: str = EVERYWHERE, ends_at: float | None = None) -> str:
    with sessions() as session:
        return create_token(session, name=name, roles=roles, project=project, expires_at=ends_at, now=NOW)


def test_token_tells_who_asks(sessions: Sessions) -> None:
    token = make(sessions, "ci", Role.OPERATOR, Role.RELEASER, project="default")
    with sessions() as session:
        known = authenticate(session, token, now=NOW)
    assert known.name == "ci"
    assert known.held == {Held("default", Role.OPERATOR), Held("default", Role.RELEASER)}


def test_only_the_digest_is_kept(sessions: Sessions) -> None:
    token = make(sessions, "ci", Role.VIEWER)
    with sessions() as session:
        row = session.scalars(select(ApiToken)).one()
    assert token not in (row.name, row.secret_sha256)
    assert len(token) >= len("shoal_") + 43  # 256 bits in base64


@pytest.mark.parametrize("wrong", ["", "shoal_", "x" * 100_000, "shoal_\N{SNOWMAN}", "' OR 1=1 --"])
def test_refuses_a_token_that_was_never_made(sessions: Sessions, wrong: str) -> None:
    make(sessions, "ci", Role.ADMIN)
    with sessions() as session, pytest.raises(NotAllowed, match="not known"):
        authenticate(session, wrong, now=NOW)


def test_refuses_a_revoked_token_and_frees_its_name(sessions: Sessions) -> None:
    token = make(sessions, "ci", Role.ADMIN)
    with sessions() as session:
        revoke_token(session, "ci", now=NOW + 1)
    with sessions() as session, pytest.raises(NotAllowed, match="'ci': revoked"):
        authenticate(session, token, now=NOW + 2)
    again = make(sessions, "ci", Role.VIEWER)
    with sessions() as session:
        assert authenticate(session, again, now=NOW + 4).held == {Held(EVERYWHERE, Role.VIEWER)}


def test_a_token_ends_at_its_end(sessions: Sessions) -> None:
    token = make(sessions, "ci", Role.VIEWER, ends_at=NOW + 10)
    with sessions() as session:
        authenticate(session, token, now=NOW + 9.9)
    with sessions() as session, pytest.raises(NotAllowed, match="'ci': has ended"):
        authenticate(session, token, now=NOW + 10)


def test_names_are_unique_and_known(sessions: Sessions) -> None:
    make(sessions, "ci", Role.ADMIN)
    with pytest.raises(Conflict):
        make(sessions, "ci", Role.ADMIN)
    with sessions() as session, pytest.raises(NotFound):
        revoke_token(session, "other", now=NOW)


def test_refuses_a_token_without_a_role_a_project_or_a_future(sessions: Sessions) -> None:
    with pytest.raises(Refused, match="at least one role"):
        make(sessions, "ci")
    with pytest.raises(NotFound, match="project 'nowhere'"):
        make(sessions, "ci", Role.VIEWER, project="nowhere")
    with pytest.raises(Refused, match="in the future"):
        make(sessions, "ci", Role.VIEWER, ends_at=NOW)
    with pytest.raises(Refused, match="a name of the pattern"):
        make(sessions, "ci\n", Role.VIEWER)


def test_who_administers_a_project_sees_and_revokes_its_tokens_only(sessions: Sessions) -> None:
    with sessions() as session:
        create_project(session, "yard", now=NOW, actor="user:anna")
    for project in ("yard", "default", EVERYWHERE):
        make(sessions, f"of-{project.replace('*', 'all')}", Role.VIEWER, project=project)
    with sessions() as session:
        assert [one.row.name for one in list_tokens(session, within=frozenset({"yard"}))] == ["of-yard"]
        assert len(list_tokens(session, within=frozenset({EVERYWHERE}))) == 3
    with sessions() as session, pytest.raises(NotFound):
        revoke_token(session, "of-all", now=NOW, within=frozenset({"yard"}))
    with sessions() as session:
        revoke_token(session, "of-yard", now=NOW, within=frozenset({"yard"}))


def test_last_use_is_kept_to_the_minute(sessions: Sessions) -> None:
    token = make(sessions, "ci", Role.VIEWER)
    for at in (NOW + 1, NOW + 30, NOW + 100):
        with sessions() as session:
            authenticate(session, token, now=at)
            found = session.scalars(select(ApiToken.last_used_at)).one()
        assert found == (NOW + 100 if at == NOW + 100 else NOW + 1)
