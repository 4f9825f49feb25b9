"""A browser sends HTTP Basic along for whatever page made it ask: that isn't enough to change something."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from fastapi import Depends, FastAPI
from shoal_fleet.access import service
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions

from tests.unit.fleet.boards import NOW, close_database, make_database


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)


def ask(sessions: Sessions, method: str, headers: Mapping[str, str], *, is_bearer: bool = False) -> int:
    app = FastAPI()
    install_error_answers(app)
    gate = Gate(sessions, clock=lambda: NOW)
    app.add_api_route("/thing", lambda: {}, methods=["GET", "POST"], dependencies=[Depends(gate.operator)])
    with sessions() as session:
        token = service.create_token(session, name=f"ci-{method}", roles=[Role.OPERATOR], now=NOW)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://fleet") as client:
            if is_bearer:
                return await client.request(method, "/thing", headers={**headers, "Authorization": f"Bearer {token}"})
            return await client.request(method, "/thing", headers=headers, auth=("me", token))

    return asyncio.run(send()).status_code


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
