"""Who may fetch metrics, in which format, and what are they of?"""

from pathlib import Path

import pytest
from fastapi import FastAPI
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from shoal_fleet.access import projects, service
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions
from shoal_fleet.messaging.inbox import Load
from shoal_fleet.metrics import routes
from shoal_fleet.metrics.server import ServerFacts

from tests.unit.fleet.api_client import ApiClient
from tests.unit.fleet.boards import NOW, Board
from tests.unit.fleet.metrics.samples import parse, value

FACTS = ServerFacts(is_connected=True, load=Load(messages=3, batch_bytes=4096, lag_s=1.5, left_out=2), warnings=1)


@pytest.fixture
def app(sessions: Sessions, database: Path) -> FastAPI:
    made = FastAPI(openapi_url=None)
    install_error_answers(made)
    gate = Gate(sessions, clock=lambda: NOW)
    router = routes.make_router(sessions=sessions, gate=gate, clock=lambda: NOW, database=database, look=lambda: FACTS)
    made.include_router(router)
    return made


@pytest.fixture
def client(app: FastAPI, sessions: Sessions) -> ApiClient:
    with sessions() as session:
        token = service.create_token(session, name="prometheus", roles=[Role.VIEWER], now=NOW)
    return ApiClient(app, token=token)


def test_the_server_describes_itself(client: ApiClient, database: Path) -> None:
    found = parse(client.get("/metrics").text)
    assert value(found, "shoal_broker_connected") == 1
    assert value(found, "shoal_inbox_lag_seconds") == 1.5
    assert value(found, "shoal_inbox_bytes") == 4096
    assert value(found, "shoal_inbox_left_out_batches_total") == 2
    assert value(found, "shoal_warnings") == 1
    assert value(found, "shoal_database_bytes") >= database.stat().st_size
    assert value(found, "process_resident_memory_bytes") > 1 << 20


def test_devices_of_every_project_are_in_it(client: ApiClient, sessions: Sessions) -> None:
    Board("one").enrol(sessions)
    with sessions() as session:
        projects.create_project(session, "yard", actor="host:root", now=NOW)
    Board("two").enrol(sessions, project="yard")
    found = parse(client.get("/metrics").text)
    assert value(found, "shoal_devices", project="default", profile="generic", state="silent") == 1
    assert value(found, "shoal_devices", project="yard", profile="generic", state="silent") == 1


def test_both_of_prometheus_formats_can_be_read(client: ApiClient) -> None:
    text = client.get("/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=")
    wanted = {"Accept": "application/openmetrics-text; version=1.0.0"}
    openmetrics = client.get("/metrics", headers=wanted)
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert {family.name for family in parse_openmetrics(openmetrics.text)} == {  # type: ignore[no-untyped-call]
        family.name for family in parse(text.text)
    }


def test_nobody_without_a_token(app: FastAPI) -> None:
    assert ApiClient(app, token=None).get("/metrics").status_code == 401


def test_who_sees_one_project_does_not_see_numbers_of_all(app: FastAPI, sessions: Sessions) -> None:
    with sessions() as session:
        token = service.create_token(session, name="yard", roles=[Role.VIEWER], project="default", now=NOW)
    assert ApiClient(app, token=token).get("/metrics").status_code == 403
