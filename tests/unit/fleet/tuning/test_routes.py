"""Does the API show what boards found out, in pages, and what a board would be told?"""

import pytest
from fastapi import FastAPI
from msgspec.structs import replace
from shoal_fleet.access import service as access
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions
from shoal_fleet.telemetry import service as telemetry
from shoal_fleet.tuning import routes

from tests.unit.fleet.api_client import ApiClient
from tests.unit.fleet.boards import NOW, Board, add_release, make_keys, reference, weights_of
from tests.unit.fleet.telemetry.rows import BOARD, LITERT, tuned

WEIGHTS = (weights_of("notes", 1),)
CHOICE = {"variant": "only", "engine": "litert", "precision": "exact", "threads": 2, "batch": 1, "device": ""}
KNOWN = f"/api/v1/tuning/known?release=notes&version=1&fingerprint={BOARD.fingerprint}"


@pytest.fixture
def app(sessions: Sessions) -> FastAPI:
    made = FastAPI(openapi_url=None)
    install_error_answers(made)
    made.include_router(routes.make_router(sessions=sessions, gate=Gate(sessions, clock=lambda: NOW)))
    return made


@pytest.fixture
def client(app: FastAPI, sessions: Sessions) -> ApiClient:
    """Of a fleet in which two boards of one kind agree, and one has tuned another model."""
    add_release(sessions, make_keys(), name="notes", version=1)
    found = tuned(replace(LITERT, variant="only"), release=reference("notes", 1), files=WEIGHTS)
    for name, row in (("a", found), ("b", found), ("c", tuned())):
        board = Board(name)
        board.enrol(sessions)
        with sessions() as session:
            telemetry.commit_batch(session, board.plain_batch(first=1, rows=[row]), now=NOW)
    with sessions() as session:
        token = access.create_token(session, name="reader", roles=[Role.VIEWER], now=NOW)
    return ApiClient(app, token=token)


def test_a_verdict_has_board_choice_and_figures(client: ApiClient) -> None:
    (shown,) = client.get("/api/v1/tuning?device=a").json()
    assert (shown["device"], shown["model"], shown["objective"]) == ("d-a", "notes", "latency")
    assert (shown["choice"], shown["files"]) == (CHOICE, list(WEIGHTS))
    assert (shown["board"]["processor"], shown["board"]["fingerprint"]) == ("Cortex-A76", BOARD.fingerprint)
    assert (shown["measured"][0]["candidate"], shown["measured"][0]["p50_ms"]) == (CHOICE, 18.25)
    assert (shown["is_settled"], shown["is_confirmed"], shown["received_at"]) == (True, False, NOW)


def test_verdicts_come_in_pages_by_model_and_kind(client: ApiClient) -> None:
    first = client.get("/api/v1/tuning?model=notes&limit=1").json()
    rest = client.get(f"/api/v1/tuning?model=notes&after_id={first[0]['id']}").json()
    assert [one["device"] for one in first + rest] == ["d-a", "d-b"]
    by_kind = client.get(f"/api/v1/tuning?fingerprint={BOARD.fingerprint}").json()
    assert [one["device"] for one in by_kind] == ["d-a", "d-b", "d-c"]
    assert client.get(f"/api/v1/tuning?fingerprint={'0' * 64}").json() == []


def test_what_a_board_of_a_kind_would_be_told(client: ApiClient) -> None:
    (shown,) = client.get(KNOWN).json()
    assert shown == {
        "model": "notes",
        "candidate": CHOICE,
        "files": list(WEIGHTS),
        "engine_version": "2.0.3",
        "p50_ms": 18.25,
        "boards": 2,
    }
    assert client.get(f"{KNOWN}&objective=energy").json() == []


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/tuning?device=nobody", 404),
        ("/api/v1/tuning?limit=0", 422),
        ("/api/v1/tuning?after_id=-1", 422),
        ("/api/v1/tuning?fingerprint=x", 422),
        ("/api/v1/tuning/known", 422),
        (KNOWN.replace("version=1", "version=2"), 404),
        (f"{KNOWN}&objective=beauty", 422),
    ],
)
def test_a_wrong_question_is_refused(client: ApiClient, path: str, status: int) -> None:
    reply = client.get(path)
    assert reply.status_code == status
    assert reply.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/api/v1/tuning", KNOWN])
def test_nobody_reads_without_a_token(app: FastAPI, path: str) -> None:
    assert ApiClient(app, token=None).get(path).status_code == 401
