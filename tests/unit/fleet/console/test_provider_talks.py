"""Does the fleet serve everybody else while the identity provider lets it wait, and who floods it?"""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from shoal_fleet.access.client_address import ClientAddresses
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.oidc import Attempt, Refresh, Vouched
from shoal_fleet.access.throttle import FREE_BY_ADDRESS
from shoal_fleet.access.vouching import Vouching
from shoal_fleet.api import install_error_answers
from shoal_fleet.console import login, provider_login
from shoal_fleet.console.provider_login import TALKS
from shoal_fleet.database import Sessions
from shoal_fleet.errors import NotAllowed

from tests.unit.fleet.access.people import quick_passwords
from tests.unit.fleet.boards import NOW, close_database, make_database
from tests.unit.fleet.console.browser import HOME


class StuckProvider:
    """Answers no question before it is let."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.is_busy = threading.Event()
        """As many as may at a time are talking to it."""
        self.asked = 0
        self._lock = threading.Lock()

    def begin(self, attempt: Attempt) -> str:
        with self._lock:
            self.asked += 1
            if self.asked == TALKS:
                self.is_busy.set()
        assert self.may_answer.wait(60)
        return f"https://login.example/?state={attempt.state}"

    def finish(self, code: str, attempt: Attempt) -> Vouched:
        self.asked += 1
        raise NotAllowed("login: the provider took no code")

    def renew(self, refresh: Refresh) -> Vouched:
        raise NotAllowed("login: nobody is logged in")


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)


@pytest.fixture
def provider() -> StuckProvider:
    return StuckProvider()


@pytest.fixture
def app(sessions: Sessions, provider: StuckProvider) -> FastAPI:
    made = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install_error_answers(made)
    gate, addresses = Gate(sessions, clock=lambda: NOW), ClientAddresses(["127.0.0.1"])
    vouching = Vouching(sessions, provider=provider, session_s=3600.0, clock=lambda: NOW)
    made.include_router(
        provider_login.make_router(
            sessions=sessions, clock=lambda: NOW, provider=provider, vouching=vouching, addresses=addresses
        )
    )
    made.include_router(
        login.make_router(
            sessions=sessions, gate=gate, clock=lambda: NOW, passwords=quick_passwords(), addresses=addresses
        )
    )
    return made


def open_client(app: FastAPI) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url=HOME, timeout=60)


def test_others_are_served_while_the_provider_does_not_answer(app: FastAPI, provider: StuckProvider) -> None:
    """More logins than the server has threads, each from another address, wait for the provider."""

    async def ask() -> tuple[int, list[int], int]:
        async with open_client(app) as client:
            logins = [
                asyncio.create_task(client.get("/login/provider", headers={"X-Forwarded-For": f"198.51.100.{number}"}))
                for number in range(60)
            ]
            assert await asyncio.to_thread(provider.is_busy.wait, 60)
            page = await asyncio.wait_for(client.get("/login"), 60)
            asked_meanwhile = provider.asked
            provider.may_answer.set()
            return page.status_code, [(await one).status_code for one in logins], asked_meanwhile

    status, logins, asked_meanwhile = asyncio.run(ask())
    assert (status, asked_meanwhile) == (200, TALKS)
    assert set(logins) == {303}


@pytest.mark.parametrize("step", ["begin", "finish"])
def test_who_begins_logins_without_end_is_slowed_down(app: FastAPI, provider: StuckProvider, step: str) -> None:
    provider.may_answer.set()
    attempt = Attempt.of("secret")
    paths = {"begin": "/login/provider", "finish": f"/login/provider/callback?code=x&state={attempt.state}"}

    async def ask() -> list[int]:
        async with open_client(app) as client:
            client.cookies.set(provider_login.ATTEMPT_COOKIE, "secret:/status")
            return [(await client.get(paths[step])).status_code for _ in range(FREE_BY_ADDRESS + 5)]

    found = asyncio.run(ask())
    assert found[FREE_BY_ADDRESS:] == [429] * 5
    assert 429 not in found[:FREE_BY_ADDRESS]
    assert provider.asked == FREE_BY_ADDRESS
