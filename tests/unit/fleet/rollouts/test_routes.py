"""Does the API of rollouts take what it should, refuse the rest clearly, and say how far devices are?"""

import pytest
from fastapi import FastAPI
from shoal_fleet.access import service as access
from shoal_fleet.access.gate import Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import routes, service
from shoal_wire.update import UpdateState

from tests.unit.fleet.api_client import ApiClient
from tests.unit.fleet.boards import NOW, Board, add_release, progress, reference, slot

BODY = {"release": "notes", "version": 1, "devices": ["all"]}


class Api:
    """An application with the routes of rollouts alone."""

    def __init__(self, sessions: Sessions, keys: OnlineKeys) -> None:
        self.sessions = sessions
        self.keys = keys
        self.woken = 0
        self._app = FastAPI(openapi_url=None)
        install_error_answers(self._app)
        gate = Gate(sessions, clock=lambda: NOW)
        self._app.include_router(
            routes.make_router(sessions=sessions, gate=gate, clock=lambda: NOW, vault=keys.vault, wake=self._count_wake)
        )

    def client(self, role: Role | None) -> ApiClient:
        if role is None:
            return ApiClient(self._app, token=None)
        with self.sessions() as session:
            return ApiClient(self._app, token=access.create_token(session, name=role.value, roles=[role], now=NOW))

    def _count_wake(self) -> None:
        self.woken += 1


@pytest.fixture
def api(sessions: Sessions, keys: OnlineKeys) -> Api:
    add_release(sessions, keys, name="notes", version=1)
    return Api(sessions, keys)


@pytest.fixture
def admin(api: Api) -> ApiClient:
    return api.client(Role.ADMIN)


def test_a_rollout_is_started_shown_and_aborted(api: Api, admin: ApiClient, board: Board) -> None:
    made = admin.post("/api/v1/rollouts", {**BODY, "probation": {"answers": 3, "p95_ratio": 1.5}})
    assert made.status_code == 201
    rollout = made.json()
    assert (rollout["state"], rollout["counts"], rollout["release"], rollout["version"]) == (
        "running",
        {"assigned": 1},
        "notes",
        1,
    )
    assert rollout["manifest_sha256"] == reference("notes", 1).manifest_sha256
    assert rollout["probation"] == {
        "answers": 3,
        "seconds": 5.0,
        "p95_ratio": 1.5,
        "max_errors": 0,
        "deadline_s": 900.0,
    }
    assert [(one["id"], one["name"], one["state"]) for one in rollout["devices"]] == [(board.id, "yard", "assigned")]
    path = f"/api/v1/rollouts/{rollout['id']}"
    assert admin.get(path).json() == rollout
    assert [one["id"] for one in admin.get("/api/v1/rollouts").json()] == [rollout["id"]]
    aborted = admin.post(f"{path}/abort", {})
    assert (aborted.status_code, aborted.json()["state"]) == (200, "aborted")
    assert admin.post(f"{path}/abort", {}).status_code == 409
    assert api.woken == 2


def test_the_step_and_reason_that_the_device_reports_are_shown(api: Api, admin: ApiClient, board: Board) -> None:
    rollout = admin.post("/api/v1/rollouts", BODY).json()
    target = reference("notes", 1)
    update = progress(target, UpdateState.CHECKING, order=(1, 1), reason="waiting for a front")
    raw = board.sign_reported(board.reported(order=(1, 1), slots=[slot(target)], update=update))
    with api.sessions() as session, writing(session):
        devices.record_reported(session, device_id=board.id, raw=raw, now=NOW)
        service.follow(session, device=devices.find_device(session, board.id), vault=api.keys.vault, now=NOW)
    (shown,) = admin.get(f"/api/v1/rollouts/{rollout['id']}").json()["devices"]
    assert (shown["state"], shown["update"], shown["reason"]) == ("updating", "checking", "waiting for a front")


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"release": "nothing"}, 404, "nothing"),
        ({"version": 2}, 404, "notes 2"),
        ({"version": "one"}, 422, "version"),
        ({"version": 2**31}, 422, "version"),
        ({"devices": []}, 422, "devices"),
        ({"devices": "all"}, 422, "devices"),
        ({"devices": ["nobody"]}, 404, "nobody"),
        ({"waves": 3}, 422, "waves"),
        ({"probation": {"answers": 0}}, 422, "answers"),
        ({"probation": {"p95_ratio": -1}}, 422, "p95_ratio"),
        ({"probation": {"patience": 1}}, 422, "patience"),
    ],
)
def test_a_wrong_request_is_refused_by_name(
    api: Api, admin: ApiClient, board: Board, change: dict[str, object], status: int, word: str
) -> None:
    reply = admin.post("/api/v1/rollouts", BODY | change)
    assert reply.status_code == status
    assert word in reply.json()["error"]["message"]
    assert api.woken == 0


@pytest.mark.parametrize("path", ["/api/v1/rollouts/77", "/api/v1/rollouts/77/abort"])
def test_a_rollout_that_is_not_there(admin: ApiClient, path: str) -> None:
    reply = admin.post(path, {}) if path.endswith("abort") else admin.get(path)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")


def test_who_may_only_read_starts_nothing(api: Api, board: Board) -> None:
    reader = api.client(Role.VIEWER)
    assert reader.post("/api/v1/rollouts", BODY).status_code == 403
    assert reader.post("/api/v1/rollouts/1/abort", {}).status_code == 403
    assert reader.get("/api/v1/rollouts").json() == []
    assert api.client(None).get("/api/v1/rollouts").status_code == 401
