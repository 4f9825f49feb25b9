"""Who is let in? A browser sends HTTP Basic along for whatever page made it ask; a token is no more than its maker."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from fastapi import Depends, FastAPI
from shoal_fleet.access import service, users
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Held, Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions

from tests.unit.fleet.access.people import add_user
from tests.unit.fleet.boards import NOW, close_database, make_database


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)


def ask(sessions: Sessions, method: str, headers: Mapping[str, str], *, is_bearer: bool = False) -> int:
    with sessions() as session:
        token = service.create_token(session, name=f"ci-{method}", roles=[Role.OPERATOR], now=NOW)
    if is_bearer:
        return send(sessions, method, headers={**headers, "Authorization": f"Bearer {token}"}).status_code
    return send(sessions, method, headers=headers, auth=("me", token)).status_code


def get(sessions: Sessions, token: str) -> tuple[int, object]:
    reply = send(sessions, "GET", headers={"Authorization": f"Bearer {token}"})
    return reply.status_code, reply.json()


def send(
    sessions: Sessions, method: str, *, headers: Mapping[str, str], auth: tuple[str, str] | None = None
) -> httpx.Response:
    app = FastAPI()
    install_error_answers(app)
    gate = Gate(sessions, clock=lambda: NOW)
    app.add_api_route("/thing", lambda: {}, methods=["GET", "POST"], dependencies=[Depends(gate.operator)])

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://fleet") as client:
            return await client.request(method, "/thing", headers=headers, auth=auth)

    return asyncio.run(send())


@pytest.mark.parametrize("said", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
def test_another_site_changes_nothing_with_a_password_that_the_browser_kept(
    sessions: Sessions, said: Mapping[str, str]
) -> None:
    assert ask(sessions, "POST", said) == 403


@pytest.mark.parametrize("said", [{}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "https://fleet"}])
def test_programs_and_pages_of_the_fleet_may(sessions: Sessions, said: Mapping[str, str]) -> None:
    assert ask(sessions, "POST", said) == 200


def test_reading_and_bearers_need_no_page(sessions: Sessions) -> None:
    assert ask(sessions, "GET", {"Sec-Fetch-Site": "cross-site"}) == 200
    assert ask(sessions, "POST", {"Sec-Fetch-Site": "cross-site"}, is_bearer=True) == 200


def test_a_token_of_a_person_with_fewer_roles_is_told_why(sessions: Sessions) -> None:
    add_user(sessions, "anna", Role.OPERATOR)
    with sessions() as session:
        token = service.create_token(session, name="ci", roles=[Role.OPERATOR], actor="user:anna", now=NOW)
    assert get(sessions, token) == (200, {})
    with sessions() as session:
        users.set_roles(session, "anna", [Held("default", Role.VIEWER)], actor="host:test", now=NOW)
    status, body = get(sessions, token)
    assert (status, "found viewer of default; a token holds no more than its maker, user:anna" in str(body)) == (
        403,
        True,
    )
    with sessions() as session:
        users.set_disabled(session, "anna", is_disabled=True, actor="host:test", now=NOW)
    status, body = get(sessions, token)
    assert (status, "the token's maker 'anna' was disabled" in str(body)) == (401, True)
