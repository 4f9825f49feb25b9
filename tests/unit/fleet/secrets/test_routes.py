"""The API of secrets takes sealed values and never gives one back."""

import json

import pytest
from fastapi import FastAPI
from shoal_fleet.access import service as access
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions
from shoal_fleet.secrets import routes
from shoal_wire.grant import parse_hpke_public
from shoal_wire.secret import seal_secret

from tests.unit.fleet.api_client import ApiClient
from tests.unit.fleet.boards import NOW, Board

PATH = "/api/v1/devices/yard/secrets"


class Api:
    """An application with the routes of secrets alone."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.woken = 0
        self._app = FastAPI(openapi_url=None)
        install_error_answers(self._app)
        gate = Gate(sessions, clock=lambda: NOW)
        self._app.include_router(routes.make_router(gate=gate, clock=lambda: NOW, wake=self._count_wake))

    def client(self, role: Role) -> ApiClient:
        with self.sessions() as session:
            return ApiClient(self._app, token=access.create_token(session, name=role.value, roles=[role], now=NOW))

    def _count_wake(self) -> None:
        self.woken += 1


@pytest.fixture
def api(sessions: Sessions, board: Board) -> Api:
    return Api(sessions)


def set_secret(client: ApiClient, value: str) -> object:
    sealing = client.get(f"{PATH}/camera-1/sealing").json()
    key = parse_hpke_public(sealing["hpke_key"], what="key")
    sealed = seal_secret(value, key, device=sealing["device"], name="camera-1", counter=sealing["counter"])
    body = {"counter": sealed.counter, "sealed": sealed.sealed}
    answer = client.post(f"{PATH}/camera-1", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_secret_is_set_listed_by_name_and_removed(api: Api) -> None:
    operator = api.client(Role.OPERATOR)
    assert set_secret(operator, "hunter2") == {"name": "camera-1", "changed_at": NOW}
    assert set_secret(operator, "hunter3") == {"name": "camera-1", "changed_at": NOW}
    listed = operator.get(PATH).json()
    assert [one["name"] for one in listed] == ["camera-1"]
    assert "sealed" not in json.dumps(listed)
    assert operator.post(f"{PATH}/camera-1/remove", {}).json() == []
    assert api.woken == 3


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"counter": 0, "sealed": "AA=="},
        {"counter": 1, "sealed": "not base64!"},
        {"counter": 1, "sealed": "A" * 3000},
    ],
)
def test_what_is_no_sealed_value_is_refused(api: Api, body: dict[str, object]) -> None:
    assert api.client(Role.OPERATOR).post(f"{PATH}/camera-1", body).status_code in (400, 422)
    assert api.woken == 0


def test_unknown_device_and_unknown_secret_are_not_found(api: Api) -> None:
    operator = api.client(Role.OPERATOR)
    assert operator.get("/api/v1/devices/nobody/secrets").status_code == 404
    assert operator.post(f"{PATH}/camera-1/remove", {}).status_code == 404
