"""Can each path of the API be used by those who may, and by nobody else?

Every operation that the fleet's own OpenAPI document names is asked for by every kind of caller. Who may is in the
table below: an operation that isn't there fails the test. Requests that change something are made so that whoever is
let in fails later, on a body or on a name that isn't there.
"""

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest
from shoal_fleet.access import login_sessions, projects, service, users
from shoal_fleet.access.csrf import csrf_word
from shoal_fleet.access.gate import COOKIE
from shoal_fleet.access.login_sessions import LoginAttempt
from shoal_fleet.access.roles import EVERYWHERE, Held, Role
from shoal_fleet.database import Sessions, make_sessions, open_engine
from shoal_fleet.state import StatePaths

from tests.publisher import make_release
from tests.system.fleet.fleet_site import run_fleet
from tests.unit.fleet.access.people import PASSWORD, quick_passwords

VIEWER, OPERATOR, RELEASER, ADMIN, FLEET_ADMIN, OPEN = "viewer", "operator", "releaser", "admin", "fleet admin", "open"

FLEET_VIEWER = "fleet viewer"
"""May read in every project."""

WHO_MAY: Mapping[str, Mapping[str, str]] = {
    "/api/v1/health": {"GET": OPEN},
    "/api/v1/warnings": {"GET": VIEWER},
    "/api/v1/fleet-keys": {"GET": VIEWER},
    "/api/v1/openapi.json": {"GET": VIEWER},
    "/metrics": {"GET": FLEET_VIEWER},
    "/api/v1/devices": {"GET": VIEWER},
    "/api/v1/devices/{device}": {"GET": VIEWER},
    "/api/v1/devices/{device}/revoke": {"POST": OPERATOR},
    "/api/v1/devices/{device}/decommission": {"POST": OPERATOR},
    "/api/v1/devices/{device}/release-hold": {"POST": OPERATOR},
    "/api/v1/devices/{device}/labels": {"PATCH": OPERATOR},
    "/api/v1/devices/{device}/rename": {"POST": OPERATOR},
    "/api/v1/devices/{device}/replacement": {"POST": OPERATOR},
    "/api/v1/devices/{device}/move": {"POST": ADMIN},
    "/api/v1/devices/{device}/exposed": {"GET": VIEWER},
    "/api/v1/devices/{device}/secrets": {"GET": VIEWER},
    "/api/v1/devices/{device}/secrets/{name}/sealing": {"GET": OPERATOR},
    "/api/v1/devices/{device}/secrets/{name}": {"POST": OPERATOR},
    "/api/v1/devices/{device}/secrets/{name}/remove": {"POST": OPERATOR},
    "/api/v1/exposed": {"GET": VIEWER},
    "/api/v1/enrolment-tokens": {"POST": OPERATOR},
    "/v1/enrol": {"POST": OPEN},
    "/v1/authority.pem": {"GET": OPEN},
    "/v1/renewal": {"POST": OPEN},
    "/v1/renewal/challenge": {"GET": OPEN},
    "/api/v1/trust": {"GET": RELEASER, "POST": FLEET_ADMIN},
    "/api/v1/trust/updates": {"POST": RELEASER},
    "/api/v1/trust/metadata/{file_name}": {"GET": RELEASER},
    "/api/v1/trust/targets/{prefixed_path}": {"GET": RELEASER},
    "/api/v1/trust/next-keys": {"GET": VIEWER},
    "/api/v1/kek": {"GET": FLEET_ADMIN},
    "/api/v1/sealed/{ciphertext_sha256}": {"HEAD": RELEASER, "GET": RELEASER, "PUT": RELEASER},
    "/api/v1/releases": {"GET": VIEWER, "POST": RELEASER},
    "/api/v1/releases/{name}/{version}": {"GET": VIEWER},
    "/api/v1/releases/{name}/move": {"POST": ADMIN},
    "/api/v1/rollouts": {"GET": VIEWER, "POST": OPERATOR},
    "/api/v1/rollouts/preview": {"POST": OPERATOR},
    "/api/v1/rollouts/policy": {"GET": VIEWER, "POST": ADMIN},
    "/api/v1/rollouts/policy/approve": {"POST": ADMIN},
    "/api/v1/rollouts/{rollout}": {"GET": VIEWER},
    "/api/v1/rollouts/{rollout}/approve": {"POST": OPERATOR},
    "/api/v1/rollouts/{rollout}/abort": {"POST": OPERATOR},
    "/api/v1/rollouts/{rollout}/pause": {"POST": OPERATOR},
    "/api/v1/rollouts/{rollout}/resume": {"POST": OPERATOR},
    "/api/v1/rollouts/{rollout}/roll-back": {"POST": OPERATOR},
    "/api/v1/rollouts/{rollout}/retry": {"POST": OPERATOR},
    "/api/v1/answers": {"GET": VIEWER},
    "/api/v1/answers/count": {"GET": VIEWER},
    "/api/v1/events": {"GET": VIEWER},
    "/api/v1/telemetry": {"GET": VIEWER},
    "/api/v1/tuning": {"GET": VIEWER},
    "/api/v1/tuning/known": {"GET": VIEWER},
    "/api/v1/audit": {"GET": FLEET_ADMIN},
    "/api/v1/audit/export": {"GET": FLEET_ADMIN},
    "/api/v1/audit/checkpoint": {"GET": FLEET_ADMIN},
    "/api/v1/projects": {"GET": VIEWER, "POST": FLEET_ADMIN},
    "/api/v1/users": {"GET": FLEET_ADMIN, "POST": FLEET_ADMIN},
    "/api/v1/users/{name}/password": {"POST": FLEET_ADMIN},
    "/api/v1/users/{name}/roles": {"POST": FLEET_ADMIN},
    "/api/v1/users/{name}/disable": {"POST": FLEET_ADMIN},
    "/api/v1/users/{name}/enable": {"POST": FLEET_ADMIN},
    "/api/v1/tokens": {"GET": ADMIN, "POST": ADMIN},
    "/api/v1/tokens/{name}/revoke": {"POST": ADMIN},
}
"""What each operation asks of its caller. OPEN: nothing that the gate knows of."""

PAGES = {
    "/": "GET",
    "/status": "GET",
    "/docs": "GET",
    "/account": "GET",
    "/account/password": "POST",
    "/logout": "POST",
    "/rollouts/777/approve": "POST",
}
"""Pages for people, which the API doesn't describe. They ask for VIEWER."""

SUFFICES = {
    VIEWER: {VIEWER},
    FLEET_VIEWER: {VIEWER, FLEET_VIEWER},
    OPERATOR: {VIEWER, OPERATOR},
    RELEASER: {VIEWER, RELEASER},
    ADMIN: {VIEWER, OPERATOR, RELEASER, ADMIN},
    FLEET_ADMIN: {VIEWER, FLEET_VIEWER, OPERATOR, RELEASER, ADMIN, FLEET_ADMIN},
}
"""What the holder of a role may ask for, as it was agreed."""

NOT_THERE: Mapping[str, str] = {"version": "7", "rollout": "777", "ciphertext_sha256": "0" * 64}
"""What stands for a parameter of a path where nothing is to be met; other parameters are texts."""


READS = "reads"
"""Stands for who may read everything and change nothing."""

FLEET_WIDE = (
    "/api/v1/trust/metadata",
    "/api/v1/fleet-keys",
    "/api/v1/openapi.json",
    "/api/v1/rollouts/policy",
    "/api/v1/warnings",
)
"""What belongs to no project: who may see it in one may see it. Signed metadata is there for whoever signs the next."""

BODIES: Mapping[str, Mapping[str, object]] = {
    "/api/v1/devices/{device}/rename": {"name": "egret"},
    "/api/v1/devices/{device}/labels": {"labels": {}},
    "/api/v1/rollouts/{rollout}/roll-back": {"wave": 1},
    "/api/v1/devices/{device}/secrets/{name}": {"counter": 1, "sealed": "AAAA"},
    "/api/v1/devices/{device}/move": {"project": "empty"},
    "/api/v1/releases/{name}/move": {"project": "empty"},
}
"""What an operation must be given to look for what its path names, where that is more than nothing."""


class Caller(NamedTuple):
    """One who asks."""

    role: str
    """What they may do, in a project at least; empty for one who must never be let in."""
    headers: Mapping[str, str]


class World(NamedTuple):
    """A fleet with a device, a release and a rollout in the project `default`, and callers of every kind."""

    http: httpx.Client
    callers: Mapping[str, Caller]
    there: Mapping[str, str]
    """By parameter of a path: what is in the project `default`."""
    described: Mapping[str, Mapping[str, Any]]
    """Paths of the API by the fleet's own word."""

    def ask(self, caller: str, method: str, path: str) -> httpx.Response:
        body = {"nothing": "that any operation takes"} if method in ("POST", "PUT", "PATCH") else None
        return self.http.request(method, path, headers=self.callers[caller].headers, json=body)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        release = make_release("pond", 1)
        fleet.publish(release)
        board = fleet.enrol("heron")
        started = fleet.post("/api/v1/rollouts", {"release": "pond", "version": 1, "devices": ["heron"]})
        engine = open_engine(StatePaths(fleet.program.state).database)
        with httpx.Client(
            base_url=fleet.http.base_url, verify=fleet.context, trust_env=False, timeout=60, follow_redirects=False
        ) as http:
            yield World(
                http=http,
                callers=make_callers(make_sessions(engine), home=str(fleet.http.base_url).rstrip("/")),
                there={
                    "device": board.answer.device,
                    "name": "pond",
                    "version": "1",
                    "rollout": str(started["id"]),
                    "ciphertext_sha256": release.ciphertext_sha256,
                    "prefixed_path": f"pond/1/{hashlib.sha256(release.manifest).hexdigest()}.manifest.json",
                },
                described=fleet.get("/api/v1/openapi.json")["paths"],
            )
        engine.dispose()


def make_callers(sessions: Sessions, *, home: str) -> dict[str, Caller]:
    """By what they are. Those whose name ends with `elsewhere` hold their role in a project that is empty."""
    now = time.time()
    with sessions() as session:
        projects.create_project(session, "empty", now=now, actor="host:test")
    callers = {
        "nobody": Caller("", {}),
        "made up": Caller("", bearer("shoal_made-up")),
        "no bearer": Caller("", {"Authorization": "Bearer"}),
    }
    for role in Role:
        callers[role.value] = Caller(role.value, bearer(make_token(sessions, role, project="default")))
        callers[f"{role.value} elsewhere"] = Caller(role.value, bearer(make_token(sessions, role, project="empty")))
    callers["fleet viewer"] = Caller(FLEET_VIEWER, bearer(make_token(sessions, Role.VIEWER, project=EVERYWHERE)))
    callers["fleet admin"] = Caller(FLEET_ADMIN, bearer(make_token(sessions, Role.ADMIN, project=EVERYWHERE)))
    expired = make_token(sessions, Role.ADMIN, project=EVERYWHERE, name="expired", now=now - 100, expires_at=now - 1)
    callers["expired token"] = Caller("", bearer(expired))
    revoked = make_token(sessions, Role.ADMIN, project=EVERYWHERE, name="revoked")
    with sessions() as session:
        service.revoke_token(session, "revoked", now=now)
    callers["revoked token"] = Caller("", bearer(revoked))
    secret = log_in(sessions, "anna", now=now)
    cookie, word = {"Cookie": f"{COOKIE}={secret}"}, {"X-CSRF-Token": csrf_word(secret)}
    callers["session"] = Caller(FLEET_ADMIN, cookie | word | {"Origin": home, "Sec-Fetch-Site": "same-origin"})
    callers["session without word"] = Caller(READS, cookie | {"Origin": home, "Sec-Fetch-Site": "same-origin"})
    callers["session without origin"] = Caller(READS, cookie | word)
    callers["session of another site"] = Caller(READS, cookie | word | {"Origin": "https://evil.example"})
    callers["ended session"] = Caller("", {"Cookie": f"{COOKIE}={log_in(sessions, 'bert', now=now - 100_000)}"})
    callers["made up session"] = Caller("", {"Cookie": f"{COOKIE}=made-up"})
    return callers


def make_token(
    sessions: Sessions,
    role: Role,
    *,
    project: str,
    name: str = "",
    now: float | None = None,
    expires_at: float | None = None,
) -> str:
    with sessions() as session:
        return service.create_token(
            session,
            name=name or f"{role.value}-{project.replace('*', 'all')}",
            roles=[role],
            project=project,
            now=time.time() if now is None else now,
            expires_at=expires_at,
        )


def log_in(sessions: Sessions, name: str, *, now: float) -> str:
    """A user who may do everything; returns the secret of their session."""
    passwords = quick_passwords()
    held = [Held(EVERYWHERE, Role.ADMIN)]
    with sessions() as session:
        users.add_user(
            session, name=name, password=PASSWORD, held=held, passwords=passwords, actor="host:test", now=now
        )
    attempt = LoginAttempt(name=name, password=PASSWORD, address="127.0.0.1")
    with sessions() as session:
        return login_sessions.log_in(session, attempt, passwords=passwords, now=now).session


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def fill(path: str, *, there: Mapping[str, str]) -> str:
    """A path of the API with something for its parameters."""
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: there.get(match[1], NOT_THERE.get(match[1], "not-there")), path)


THERE = (
    ("/api/v1/devices/{device}", "viewer", "GET", 200),
    ("/api/v1/releases/{name}/{version}", "viewer", "GET", 200),
    ("/api/v1/rollouts/{rollout}", "viewer", "GET", 200),
    ("/api/v1/trust/targets/{prefixed_path}", "releaser", "GET", 200),
    ("/api/v1/sealed/{ciphertext_sha256}", "releaser", "GET", 200),
    ("/api/v1/sealed/{ciphertext_sha256}", "releaser", "HEAD", 200),
    ("/api/v1/devices/{device}/move", "admin", "POST", 422),
    ("/api/v1/releases/{name}/move", "admin", "POST", 422),
)
"""What is there in the project `default`: the path, who finds it, how, and what they get without a body."""


def operations(world: World) -> list[tuple[str, str]]:
    methods = ("get", "head", "post", "put", "patch", "delete")
    return [(method.upper(), path) for path, item in world.described.items() for method in methods if method in item]


def may(caller: Caller, method: str, needed: str) -> bool:
    if caller.role == READS:
        return method in ("GET", "HEAD")
    return needed in SUFFICES.get(caller.role, set())


def test_every_operation_is_in_the_table_and_nothing_else(world: World) -> None:
    table = [(method, path) for path, needs in WHO_MAY.items() for method in needs]
    assert sorted(operations(world)) == sorted(table)


def test_each_operation_lets_those_in_who_may_and_nobody_else(world: World) -> None:
    wrong = []
    for method, path in operations(world):
        needed = WHO_MAY.get(path, {}).get(method, FLEET_ADMIN)
        for name, caller in world.callers.items():
            reply = world.ask(name, method, fill(path, there={}))
            is_let_in = reply.status_code not in (401, 403)
            expected = may(caller, method, needed)
            if needed != OPEN and is_let_in != expected:
                wrong.append(f"{name}: {method} {path}: {reply.status_code} {reply.text[:100]}")
            assert reply.status_code < 500, (name, method, path, reply.text)
    assert wrong == []


def test_what_is_open_asks_for_no_login(world: World) -> None:
    for method, path in operations(world):
        if WHO_MAY.get(path, {}).get(method) == OPEN and method == "GET":
            assert world.ask("nobody", method, path).status_code == 200, path


def test_an_object_of_another_project_is_not_there(world: World) -> None:
    tried = set()
    for method, path in operations(world):
        needed, names = WHO_MAY.get(path, {}).get(method), set(re.findall(r"{(\w+)", path))
        if needed in (None, OPEN, FLEET_ADMIN) or not names & set(world.there) or path.startswith(FLEET_WIDE):
            continue
        if method == "PUT":
            continue  # whoever has the bytes may bring them
        tried.add((method, path))
        for name in (f"{needed} elsewhere", "admin elsewhere"):
            headers = world.callers[name].headers
            body = BODIES.get(path, {}) if method in ("POST", "PATCH") else None
            reply = world.http.request(method, fill(path, there=world.there), json=body, headers=headers)
            assert reply.status_code == 404, (name, method, path, reply.text)
    assert {(method, path) for path, _, method, _ in THERE} <= tried


def test_what_is_in_a_project_is_there_for_those_who_may(world: World) -> None:
    """Or the test before would show nothing."""
    for path, caller, method, status in THERE:
        assert world.ask(caller, method, fill(path, there=world.there)).status_code == status, path


def test_what_the_whole_fleet_has_is_there_for_releasers_of_any_project(world: World) -> None:
    """Who publishes in one project follows the same metadata, floors and keys as everybody."""
    trust = world.ask("releaser elsewhere", "GET", "/api/v1/trust").json()
    for role in ("root", "targets"):
        path = f"/api/v1/trust/metadata/{trust['versions'][role]}.{role}.json"
        assert world.ask("releaser elsewhere", "GET", path).status_code == 200, path
    signed = json.loads(base64.b64decode(trust["targets"]))["signed"]
    digest = signed["targets"]["keys/assignment.json"]["hashes"]["sha256"]
    path = f"/api/v1/trust/targets/keys/{digest}.assignment.json"
    assert world.ask("releaser elsewhere", "GET", path).status_code == 200


def test_an_upload_that_no_release_has_yet_goes_on_for_any_releaser(world: World) -> None:
    content = b"sealed, or so it seems"
    path = f"/api/v1/sealed/{hashlib.sha256(content).hexdigest()}"
    assert world.http.put(path, content=content, headers=world.callers["releaser elsewhere"].headers).status_code == 201
    for caller in ("releaser elsewhere", "releaser"):
        assert world.ask(caller, "HEAD", path).status_code == 200
        assert world.ask(caller, "GET", path).status_code == 404


def test_lists_hold_nothing_of_another_project(world: World) -> None:
    marks = (world.there["device"], "heron", "pond")
    for method, path in operations(world):
        if method != "GET" or "{" in path or WHO_MAY.get(path, {}).get(method) != VIEWER or path.startswith(FLEET_WIDE):
            continue
        query = "?release=pond&version=1&fingerprint=" + "0" * 64 if path.endswith("/known") else ""
        reply = world.ask("admin elsewhere", method, path + query)
        assert [mark for mark in marks if mark in reply.text.replace("release pond 1: not of this fleet", "")] == [], (
            path
        )
    for path in ("/api/v1/devices", "/api/v1/releases", "/api/v1/rollouts"):
        assert world.ask("viewer elsewhere", "GET", path).json() == []
        assert len(world.ask("viewer", "GET", path).json()) == 1


def test_a_device_of_another_project_is_in_no_query(world: World) -> None:
    for path in ("/api/v1/answers", "/api/v1/events", "/api/v1/telemetry", "/api/v1/tuning"):
        reply = world.http.get(path, params={"device": "heron"}, headers=world.callers["viewer elsewhere"].headers)
        assert reply.status_code == 404, path
        reply = world.http.get(path, params={"device": "heron"}, headers=world.callers["viewer"].headers)
        assert reply.status_code == 200, path


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/enrolment-tokens", {"name": "egret", "project": "default"}),
        ("POST", "/api/v1/tokens", {"name": "mine", "project": "default", "roles": ["viewer"]}),
        ("POST", "/api/v1/tokens", {"name": "mine", "project": "*", "roles": ["viewer"]}),
        ("POST", "/api/v1/tokens/viewer-default/revoke", {}),
        ("POST", "/api/v1/rollouts", {"release": "pond", "version": 1, "devices": ["all"]}),
    ],
)
def test_a_role_in_one_project_does_nothing_in_another(
    world: World, method: str, path: str, body: Mapping[str, object]
) -> None:
    reply = world.http.request(method, path, json=body, headers=world.callers["admin elsewhere"].headers)
    assert reply.status_code in (403, 404), reply.text


@pytest.mark.parametrize(("path", "method"), PAGES.items())
def test_pages_are_for_those_who_are_known(world: World, path: str, method: str) -> None:
    for name, caller in world.callers.items():
        if name == "session" and method == "POST":
            continue  # it would end
        reply = world.ask(name, method, path)
        is_let_in = reply.status_code == 200
        if method == "GET" and "Cookie" in caller.headers:
            assert is_let_in == bool(caller.role), (name, path, reply.status_code)
        elif method == "GET" and not caller.headers:
            assert (reply.status_code, reply.headers["Location"]) == (303, f"/login?next={path}")
        elif method == "POST" and caller.role in ("", READS):
            assert reply.status_code in (401, 403), (name, path)
