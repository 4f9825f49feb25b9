"""Is every request that may change something in the log before its handler runs, and its outcome after?"""

import asyncio
import logging

import httpx
import pytest
from shoal_fleet.audit import service
from shoal_fleet.audit.recorder import AuditRecorder, Noted, OutcomeRecording, note_request
from shoal_fleet.audit.service import Filter
from shoal_fleet.database import Sessions
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.unit.fleet.boards import NOW


class RecorderThatFailsAfterwards(AuditRecorder):
    def answered(self, noted: Noted, *, status: int) -> None:
        raise OSError("no space left on device")


def make_app(recorder: AuditRecorder) -> ASGIApp:
    """`/good` is answered, `/bad` crashes, `/open` has no gate."""

    def good(request: Request) -> Response:
        note_request(recorder, request, actor="user:anna")
        note_request(recorder, request, actor="user:anna")
        return PlainTextResponse("done", status_code=201)

    def bad(request: Request) -> Response:
        note_request(recorder, request, actor="user:anna")
        raise RuntimeError

    methods = ["GET", "POST", "PUT", "DELETE"]
    routes = [
        Route("/good", good, methods=methods),
        Route("/bad", bad, methods=methods),
        Route("/open", lambda _: PlainTextResponse("done"), methods=methods),
    ]
    return OutcomeRecording(Starlette(routes=routes), recorder=recorder)


def ask(app: ASGIApp, method: str, path: str) -> int:
    async def send() -> int:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="https://fleet") as client:
            return (await client.request(method, path)).status_code

    return asyncio.run(send())


def recorded(sessions: Sessions) -> list[tuple[str, str, str, dict[str, object]]]:
    with sessions() as session:
        entries = service.list_entries(session, before=None, wanted=Filter(), limit=10)
    return [(entry.actor, entry.action, entry.subject, entry.detail) for entry in reversed(entries)]


def test_a_request_and_its_outcome_are_noted_once(sessions: Sessions) -> None:
    app = make_app(AuditRecorder(sessions, clock=lambda: NOW))
    assert ask(app, "POST", "/good?secret=1") == 201
    assert recorded(sessions) == [
        ("user:anna", "api.asked", "POST /good", {}),
        ("user:anna", "api.answered", "POST /good", {"asked": 1, "status": 201}),
    ]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_handler_that_crashes_is_noted_too(sessions: Sessions, method: str) -> None:
    app = make_app(AuditRecorder(sessions, clock=lambda: NOW))
    assert ask(app, method, "/bad") == 500
    assert [(action, detail) for _, action, _, detail in recorded(sessions)] == [
        ("api.asked", {}),
        ("api.answered", {"asked": 1, "status": 500}),
    ]


def test_reading_and_what_no_gate_let_in_are_not_noted(sessions: Sessions) -> None:
    app = make_app(AuditRecorder(sessions, clock=lambda: NOW))
    assert ask(app, "GET", "/good") == 201
    assert ask(app, "POST", "/open") == 200
    assert recorded(sessions) == []


def test_an_answer_is_given_though_its_outcome_can_not_be_noted(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(RecorderThatFailsAfterwards(sessions, clock=lambda: NOW))
    with caplog.at_level(logging.ERROR):
        assert ask(app, "POST", "/good") == 201
    assert "the outcome of entry 1 (status 201) was not noted" in caplog.text
