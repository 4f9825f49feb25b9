"""Are API tokens known by their digest alone, refused once revoked or past their end, and no more than their maker?"""

from collections.abc import Iterator

import pytest
from shoal_fleet.access import users
from shoal_fleet.access.models import ApiToken
from shoal_fleet.access.projects import create_project
from shoal_fleet.access.roles import EVERYWHERE, Held, Known, Role
from shoal_fleet.access.service import authenticate, choose_end, create_token, list_tokens, revoke_token
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import Conflict, NotAllowed, NotFound, Refused
from sqlalchemy import select
from sqlalchemy.orm import Session

from tests.unit.fleet.access.people import add_user
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
    assert (known.actor, known.ends_at) == ("token:ci", None)
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


def make_chain(sessions: Sessions, person: str, *names: str) -> str:
    """Tokens of which each makes the next, the first by a person; returns the last."""
    maker, token = Known(person, frozenset(), person=person, ends_at=None), ""
    for name in names:
        with sessions() as session:
            token = create_token(
                session, name=name, roles=[Role.ADMIN], actor=maker.actor, person=maker.person, now=NOW
            )
        with sessions() as session:
            maker = authenticate(session, token, now=NOW)
    return token


def test_a_token_is_the_person_who_made_it_through_any_chain_of_tokens(sessions: Sessions) -> None:
    add_user(sessions, "anna", Role.ADMIN)
    token = make_chain(sessions, "user:anna", "first", "second", "third")
    with sessions() as session:
        known = authenticate(session, token, now=NOW)
    assert known == Known("token:third", frozenset({Held(EVERYWHERE, Role.ADMIN)}), person="user:anna", ends_at=None)
    with sessions() as session:
        makers = {one.row.name: one.row.made_by for one in list_tokens(session, within=frozenset({EVERYWHERE}))}
    assert makers == {"first": "user:anna", "second": "token:first", "third": "token:second"}


CHAINS = pytest.mark.parametrize("names", [("ci",), ("first", "second", "ci")], ids=["one", "chain"])


def set_disabled(session: Session, *, is_disabled: bool) -> None:
    users.set_disabled(session, "anna", is_disabled=is_disabled, actor="host:test", now=NOW)


@CHAINS
def test_a_token_of_a_disabled_person_counts_for_nothing_until_they_are_enabled(
    sessions: Sessions, names: tuple[str, ...]
) -> None:
    add_user(sessions, "anna", Role.ADMIN)
    token = make_chain(sessions, "user:anna", *names)
    with sessions() as session:
        set_disabled(session, is_disabled=True)
    with sessions() as session, pytest.raises(NotAllowed, match="'ci': the token's maker 'anna' was disabled"):
        authenticate(session, token, now=NOW)
    with sessions() as session:
        set_disabled(session, is_disabled=False)
    with sessions() as session:
        assert authenticate(session, token, now=NOW).held == {Held(EVERYWHERE, Role.ADMIN)}


@CHAINS
@pytest.mark.parametrize("left", [Held("default", Role.ADMIN), Held(EVERYWHERE, Role.VIEWER)], ids=str)
def test_a_token_holds_no_more_than_its_maker_does_now(sessions: Sessions, names: tuple[str, ...], left: Held) -> None:
    add_user(sessions, "anna", Role.ADMIN)
    token = make_chain(sessions, "user:anna", *names)
    with sessions() as session:
        users.set_roles(session, "anna", [left], actor="host:test", now=NOW)
    with sessions() as session:
        assert authenticate(session, token, now=NOW).held == {left}


def test_a_token_gains_nothing_when_its_maker_does(sessions: Sessions) -> None:
    add_user(sessions, "anna", Role.ADMIN)
    with sessions() as session:
        token = create_token(session, name="ci", roles=[Role.VIEWER], project="default", actor="user:anna", now=NOW)
        assert authenticate(session, token, now=NOW).held == {Held("default", Role.VIEWER)}


@CHAINS
def test_a_token_holds_nothing_once_the_provider_has_dropped_its_maker(
    sessions: Sessions, names: tuple[str, ...]
) -> None:
    with sessions() as session, writing(session):
        users.take_from_provider(session, subject="7", name="carla", held=[Held(EVERYWHERE, Role.ADMIN)], now=NOW)
    token = make_chain(sessions, "user:carla", *names)
    with sessions() as session, writing(session):
        users.drop_from_provider(session, subject="7", now=NOW)
    with sessions() as session, pytest.raises(NotAllowed, match="'ci': the token's maker 'carla' has no role any more"):
        authenticate(session, token, now=NOW)


def test_refuses_a_token_whose_maker_is_gone(sessions: Sessions) -> None:
    with sessions() as session:
        token = create_token(session, name="ci", roles=[Role.VIEWER], actor="user:nobody", now=NOW)
    with sessions() as session, pytest.raises(NotAllowed, match="'ci': the token's maker 'nobody' is gone"):
        authenticate(session, token, now=NOW)


@pytest.mark.parametrize("person", ["host:root", "fleet", ""], ids=["server", "first-token", "unknown"])
def test_a_token_that_no_user_answers_for_outlives_every_user(sessions: Sessions, person: str) -> None:
    for name in ("root", "fleet"):
        add_user(sessions, name, Role.VIEWER)
        with sessions() as session:
            users.set_disabled(session, name, is_disabled=True, actor="host:test", now=NOW)
    token = make_chain(sessions, person, "first", "ci")
    with sessions() as session:
        assert authenticate(session, token, now=NOW).held == {Held(EVERYWHERE, Role.ADMIN)}


@pytest.mark.parametrize(
    ("wanted", "parent", "found"),
    [(None, None, None), (20.0, None, 20.0), (None, 10.0, 10.0), (5.0, 10.0, 5.0), (10.0, 10.0, 10.0)],
)
def test_what_a_token_makes_ends_no_later_than_it(
    wanted: float | None, parent: float | None, found: float | None
) -> None:
    assert choose_end(wanted, parent=parent) == found


def test_refuses_an_end_after_that_of_the_token_that_asks() -> None:
    with pytest.raises(Refused, match="found one 5 s after it"):
        choose_end(15.0, parent=10.0)


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
