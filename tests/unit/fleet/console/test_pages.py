"""Are the pages safe to look at, whatever devices say?"""

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from shoal_fleet.access import service as access
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.console import routes as console
from shoal_fleet.console.reference_page import name_type
from shoal_fleet.console.status_page import say_ago
from shoal_fleet.database import Sessions
from shoal_fleet.telemetry import routes as telemetry
from shoal_fleet.telemetry import service

from tests.unit.fleet.api_client import ApiClient
from tests.unit.fleet.boards import NOW, Board, close_database, make_database
from tests.unit.fleet.telemetry.rows import answer
from tests.unit.fleet.telemetry.rows import telemetry as counts

EVIL = "<script>alert('x')</script>"


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)


@pytest.fixture
def troubles() -> list[str]:
    """What is wrong with the fleet."""
    return []


@pytest.fixture
def app(sessions: Sessions, troubles: list[str]) -> FastAPI:
    made = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install_error_answers(made)
    gate = Gate(sessions, clock=lambda: NOW)
    made.include_router(
        console.make_router(
            sessions=sessions,
            gate=gate,
            clock=lambda: NOW,
            describe=made.openapi,
            approve=lambda *_: None,
            find_trouble=lambda: troubles,
        )
    )
    made.include_router(telemetry.make_router(sessions=sessions, gate=gate, clock=lambda: NOW))
    return made


@pytest.fixture
def token(sessions: Sessions) -> str:
    with sessions() as session:
        return access.create_token(session, name="reader", roles=[Role.VIEWER], now=NOW)


@pytest.fixture
def client(app: FastAPI, token: str) -> ApiClient:
    return ApiClient(app, token=token)


def test_a_page_takes_a_token_as_password_and_sends_all_others_to_log_in(app: FastAPI, token: str) -> None:
    nobody = ApiClient(app, token=None)
    for path in ("/", "/status", "/docs"):
        reply = nobody.get(path)
        assert (reply.status_code, reply.headers["Location"]) == (303, f"/login?next={path}")
        basic = base64.b64encode(f"anyone:{token}".encode()).decode()
        assert nobody.get(path, headers={"Authorization": f"Basic {basic}"}).status_code == 200


def test_an_empty_fleet_says_what_to_do_next(client: ApiClient) -> None:
    page = client.get("/").text
    assert "shoal device token" in page
    assert "shoal rollout start" in page


def test_words_of_a_device_are_shown_as_text(client: ApiClient, sessions: Sessions) -> None:
    board = Board("yard")
    board.name = f"yard {EVIL}"
    board.enrol(sessions)
    with sessions() as session:
        service.commit_batch(session, board.plain_batch(first=1, rows=[answer("one", words=EVIL)]), now=NOW - 5)
    page = client.get("/status").text
    assert EVIL not in page
    assert page.count("&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;") == 2
    assert "5 s ago" in page


@pytest.mark.parametrize(("deaths", "words"), [(0, None), (1, "1 worker died in"), (1234, "1,234 workers died in")])
def test_deaths_of_workers_are_a_warning(client: ApiClient, sessions: Sessions, deaths: int, words: str | None) -> None:
    board = Board("yard")
    board.enrol(sessions)
    with sessions() as session:
        service.commit_batch(session, board.plain_batch(first=1, rows=[counts(10.0, deaths=deaths)]), now=NOW - 3600)
    page = client.get("/status").text
    assert re.findall(r'class="warning[^"]*">(.*?) the last 24 h<', page) == ([] if words is None else [words])


def test_warnings_are_shown_as_text_where_there_are_any(client: ApiClient, troubles: list[str]) -> None:
    assert "Warnings" not in client.get("/status").text
    troubles += ["audit log: the log was changed", EVIL]
    page = client.get("/status").text
    assert "<li>audit log: the log was changed</li>" in page
    assert EVIL not in page


@pytest.mark.parametrize("path", ["/status", "/docs"])
def test_a_page_runs_its_own_script_only_and_takes_nothing_from_elsewhere(client: ApiClient, path: str) -> None:
    reply = client.get(path)
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        for inside in re.findall(f"<{tag}>(.*?)</{tag}>", reply.text, flags=re.DOTALL):
            digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
            assert f"{directive} 'sha256-{digest}'" in policy
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", reply.text)
    assert "style=" not in reply.text


def test_the_list_of_the_api_has_every_path_with_its_fields(client: ApiClient) -> None:
    page = client.get("/docs").text
    for word in ("/api/v1/answers/count", "after_id", "manifest_sha256", "processes.pss_bytes", "list of EventView"):
        assert word in page
    assert "/docs</code>" not in page


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": "string", "format": "binary"}, "binary"),
        ({"$ref": "#/components/schemas/AnswerView"}, "AnswerView"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/AnswerView"}}, "list of AnswerView"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({}, "any"),
    ],
)
def test_types_in_words(schema: dict[str, object], words: str) -> None:
    assert name_type(schema) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s ago"),
        (0, "0 s ago"),
        (99, "99 s ago"),
        (120, "2 min ago"),
        (7200, "2 h ago"),
        (3 * 86400, "3 d ago"),
        (1e12, "11574074 d ago"),
    ],
)
def test_how_long_ago(seconds: float, words: str) -> None:
    assert say_ago(seconds) == words
