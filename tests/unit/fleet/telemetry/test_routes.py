"""Does the API show what devices have sent?"""

import pytest
from fastapi import FastAPI
from shoal_fleet.access import service as access
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions
from shoal_fleet.telemetry import routes, service
from shoal_wire.messages import Row

from tests.unit.fleet.api_client import ApiClient
from tests.unit.fleet.boards import NOW, Board
from tests.unit.fleet.telemetry.rows import answer, event, process, telemetry


@pytest.fixture
def app(sessions: Sessions) -> FastAPI:
    made = FastAPI(openapi_url=None)
    install_error_answers(made)
    gate = Gate(sessions, clock=lambda: NOW)
    made.include_router(routes.make_router(sessions=sessions, gate=gate, clock=lambda: NOW))
    return made


@pytest.fixture
def client(app: FastAPI, sessions: Sessions, board: Board) -> ApiClient:
    rows: list[Row | bytes] = [
        answer("one"),
        answer("two"),
        event("started"),
        telemetry(10.0, 10.0, deaths=1),
        process("daemon", pss_bytes=7),
        b"{}",
    ]
    with sessions() as session:
        service.commit_batch(session, board.plain_batch(first=1, rows=rows), now=NOW)
        token = access.create_token(session, name="reader", roles=[Role.VIEWER], now=NOW)
    return ApiClient(app, token=token)


def test_answers_come_in_pages_by_device_and_release(client: ApiClient, board: Board) -> None:
    first = client.get(f"/api/v1/answers?device={board.name}&release=note-events&limit=1").json()
    rest = client.get(f"/api/v1/answers?device={board.id}&after_id={first[0]['id']}").json()
    assert [(one["item"], one["words"], one["answer"]) for one in [*first, *rest]] == [
        ("one", "C4 E4 G4", {"notes": [60, 64, 67]}),
        ("two", "C4 E4 G4", {"notes": [60, 64, 67]}),
    ]
    assert first[0]["answer_id"] == answer("one").answer_id
    assert client.get("/api/v1/answers?release=other").json() == []
    assert client.get("/api/v1/answers/count?release=note-events&version=1").json() == {"count": 2}
    assert client.get("/api/v1/answers/count?version=2").json() == {"count": 0}


def test_events(client: ApiClient, board: Board) -> None:
    (shown,) = client.get(f"/api/v1/events?device={board.id}").json()
    assert (shown["device"], shown["name"], shown["detail"], shown["generation"]) == (
        board.id,
        "started",
        "it happened",
        3,
    )


def test_telemetry_of_all_devices_also_of_a_silent_one(client: ApiClient, board: Board, sessions: Sessions) -> None:
    Board("silent").enrol(sessions)
    silent, shown = client.get("/api/v1/telemetry?window_s=30").json()
    assert (shown["device"], shown["answers"], shown["errors"], shown["answers_per_s"]) == (board.id, 2, 0, 0.4)
    assert (shown["deaths"], silent["deaths"]) == (1, 0)
    assert shown["p50_ms"] == pytest.approx(10.0, rel=0.01)
    assert (shown["duplicates"], shown["rejected"], shown["lost"]) == (0, 1, 0)
    assert [(one["name"], one["pss_bytes"]) for one in shown["processes"]] == [("daemon", 7)]
    assert (silent["answers"], silent["answers_per_s"], silent["p95_ms"], silent["processes"]) == (0, None, None, [])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/answers?device=nobody", 404),
        ("/api/v1/answers/count?device=nobody", 404),
        ("/api/v1/events?device=nobody", 404),
        ("/api/v1/telemetry?device=nobody", 404),
        ("/api/v1/answers?limit=0", 422),
        ("/api/v1/answers?limit=100000", 422),
        ("/api/v1/answers?after_id=-1", 422),
        ("/api/v1/answers?version=x", 422),
        ("/api/v1/telemetry?window_s=nan", 422),
        ("/api/v1/telemetry?window_s=0", 422),
    ],
)
def test_a_wrong_question_is_refused(client: ApiClient, path: str, status: int) -> None:
    reply = client.get(path)
    assert reply.status_code == status
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/api/v1/answers", "/api/v1/answers/count", "/api/v1/events", "/api/v1/telemetry"])
def test_nobody_reads_without_a_token(app: FastAPI, path: str) -> None:
    assert ApiClient(app, token=None).get(path).status_code == 401
