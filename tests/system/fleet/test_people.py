"""Can people, tokens and projects be managed from the command line, and does what was said count at once?"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from shoal_fleet.access.csrf import HEADER, csrf_word
from shoal_fleet.access.gate import COOKIE

from tests.publisher import make_release
from tests.system.fleet.fleet_site import Fleet, message_of, run_cli, run_fleet
from tests.system.fleet.operator_site import Operator

PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        yield fleet


@pytest.fixture(scope="module")
def admin(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Operator:
    operator = Operator(fleet, tmp_path_factory.mktemp("admin"))
    assert operator.log_in().code == 0
    return operator


@contextmanager
def log_in(fleet: Fleet, name: str, password: str = PASSWORD) -> Iterator[httpx.Client]:
    """A browser, which is logged in if name and password are right."""
    home = str(fleet.http.base_url).rstrip("/")
    with httpx.Client(base_url=home, verify=fleet.context, trust_env=False, timeout=60) as browser:
        browser.post("/login", data={"name": name, "password": password}, headers={"Origin": home})
        yield browser


def test_a_user_comes_in_with_a_browser_until_disabled(fleet: Fleet, admin: Operator) -> None:
    made = admin.shoal("user", "add", "anna", "--role", "viewer", "--password-file", "-", "--json", stdin=PASSWORD)
    assert made.json["roles"] == [{"project": "*", "role": "viewer"}]
    with log_in(fleet, "anna") as browser:
        assert browser.get("/status").status_code == 200
        assert browser.get("/api/v1/devices").json() == []
        changed = admin.shoal("user", "roles", "anna", "--role", "operator", "--role", "releaser")
        assert changed.out == "anna: operator of every project, releaser of every project\n"
        assert browser.get("/status").status_code == 303
    with log_in(fleet, "anna") as browser:
        assert admin.shoal("user", "disable", "anna").out == "anna is disabled\n"
        assert browser.get("/status").status_code == 303
    with log_in(fleet, "anna") as browser:
        assert browser.get("/status").status_code == 303
    listed = admin.shoal("user", "list")
    assert "disabled" in listed.out
    assert admin.shoal("user", "enable", "anna").code == 0
    admin.shoal("user", "passwd", "anna", "--password-file", "-", stdin="another long one\n")
    with log_in(fleet, "anna", "another long one") as browser:
        assert browser.get("/status").status_code == 200


def test_a_password_that_is_too_short_is_refused_and_not_repeated(admin: Operator) -> None:
    ran = admin.shoal("user", "add", "bert", "--role", "viewer", "--password-file", "-", stdin="hunter2!")
    ran.refused(1, "expected 12 to 256 characters, found 8")
    assert "hunter2!" not in ran.err


def test_a_token_does_what_its_scope_says_until_it_is_revoked(fleet: Fleet, admin: Operator, tmp_path: Path) -> None:
    assert admin.shoal("project", "add", "yard").out == "yard is made\n"
    made = admin.shoal("token", "add", "ci", "--role", "operator", "--project", "yard", "--valid-for", "3600", "--json")
    listed = admin.shoal("token", "list", "--json")
    (shown,) = [one for one in listed.json if one["name"] == "ci"]
    assert (shown["roles"], shown["last_used_at"]) == ([{"project": "yard", "role": "operator"}], None)
    assert shown["expires_at"] == made.json["expires_at"]
    assert made.json["token"] not in listed.out
    ci = Operator(fleet, tmp_path / "ci")
    assert ci.log_in(token=made.json["token"]).code == 0
    assert ci.shoal("device", "token", "--name", "gate").code == 0
    ci.shoal("device", "token", "--name", "gate", "--project", "default").refused(1, "it counts in yard")
    ci.shoal("token", "list").refused(1, "expected the role admin, found operator of yard")
    assert [one["name"] for one in ci.shoal("project", "list", "--json").json] == ["yard"]
    assert admin.shoal("token", "revoke", "ci").out == "ci is revoked\n"
    ci.shoal("device", "list").refused(1, "API token 'ci': revoked")


def test_the_first_user_is_made_on_the_server(fleet: Fleet, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    state = fleet.program.state
    arguments = ("user", "add", "root", "--role", "admin", "--password-file", str(file))
    assert run_cli(state, *arguments).returncode == 0
    again = run_cli(state, *arguments)
    assert (again.returncode, again.stderr) == (1, "shoal-fleet: user 'root': there is one of that name\n")
    with log_in(fleet, "root") as browser:
        assert browser.get("/api/v1/users").status_code == 200
    assert run_cli(state, "user", "disable", "root").returncode == 0
    with log_in(fleet, "root") as browser:
        assert browser.get("/api/v1/users").status_code == 401


def test_the_audit_log_has_who_did_what_to_whom_and_no_secret(fleet: Fleet, admin: Operator) -> None:
    admin.shoal("user", "add", "dora", "--role", "viewer", "--password-file", "-", stdin=PASSWORD)
    entries = fleet.get("/api/v1/audit?limit=1000")
    (added,) = [one for one in entries if (one["action"], one["subject"]) == ("user.added", "dora")]
    assert (added["actor"], added["detail"]) == ("token:first", {"roles": ["viewer of *"]})
    assert ("token:first", "POST /api/v1/users") in [
        (one["actor"], one["subject"]) for one in entries if one["action"] == "api.asked"
    ]
    assert PASSWORD not in json.dumps(entries)


def test_the_log_of_the_server_has_no_password(fleet: Fleet, admin: Operator) -> None:
    with log_in(fleet, "anna", "a wrong but telling password"):
        pass
    body = {"name": "emil", "password": "a telling password", "roles": [{"project": "nowhere", "role": "viewer"}]}
    reply = fleet.http.post("/api/v1/users", json=body)
    assert (reply.status_code, "project 'nowhere'" in message_of(reply)) == (404, True)
    reply = fleet.http.post("/api/v1/users", json=body | {"password": ["a telling password"]})
    assert reply.status_code == 422
    assert "telling" not in reply.text
    assert "telling" not in fleet.program.log.read_text()


def test_a_token_that_ends_makes_none_that_goes_on(fleet: Fleet, admin: Operator, tmp_path: Path) -> None:
    made = admin.shoal("token", "add", "short", "--role", "admin", "--valid-for", "3600", "--json")
    short = Operator(fleet, tmp_path / "short")
    assert short.log_in(token=made.json["token"]).code == 0
    child = short.shoal("token", "add", "child", "--role", "viewer", "--json")
    assert child.json["expires_at"] == made.json["expires_at"]
    longer = short.shoal("token", "add", "longer", "--role", "viewer", "--valid-for", "7200")
    longer.refused(1, "expected an end no later than that of the token that makes it")
    makers = {one["name"]: one["made_by"] for one in admin.shoal("token", "list", "--json").json}
    assert (makers["child"], makers["short"]) == ("token:short", "token:first")


def test_tokens_of_a_user_go_with_what_the_user_loses(fleet: Fleet, admin: Operator, tmp_path: Path) -> None:
    admin.shoal("user", "add", "frida", "--role", "admin", "--password-file", "-", stdin=PASSWORD)
    with log_in(fleet, "frida") as browser:
        said = {"Origin": str(fleet.http.base_url).rstrip("/"), HEADER: csrf_word(browser.cookies[COOKIE])}
        wanted = {"name": "of-frida", "project": "*", "roles": ["admin"]}
        made = browser.post("/api/v1/tokens", json=wanted, headers=said)
    first, second = Operator(fleet, tmp_path / "first"), Operator(fleet, tmp_path / "second")
    assert first.log_in(token=made.json()["token"]).code == 0
    child = first.shoal("token", "add", "of-of-frida", "--role", "admin", "--json").json["token"]
    assert second.log_in(token=child).code == 0
    admin.shoal("user", "roles", "frida", "--role", "viewer")
    for one in (first, second):
        one.shoal("user", "list").refused(1, "found viewer of *; a token holds no more than its maker, user:frida")
        assert one.shoal("device", "list").code == 0
    admin.shoal("user", "disable", "frida")
    for one in (first, second):
        one.shoal("device", "list").refused(1, "the token's maker 'frida' was disabled")
    assert admin.shoal("device", "list").code == 0


def test_a_device_and_releases_are_moved_to_another_project(fleet: Fleet, admin: Operator, tmp_path: Path) -> None:
    admin.shoal("project", "add", "garden")
    fleet.publish(make_release("pond", 1))
    fleet.enrol("heron")
    keeper = Operator(fleet, tmp_path / "keeper")
    token = admin.shoal("token", "add", "keeper", "--role", "admin", "--project", "garden", "--json").json["token"]
    assert keeper.log_in(token=token).code == 0
    keeper.shoal("device", "move", "heron", "--project", "garden").refused(4, "found none")
    admin.shoal("release", "move", "pond", "--project", "nowhere").refused(4, "project 'nowhere'")
    assert admin.shoal("release", "move", "pond", "--project", "garden").out == "releases of pond are in garden\n"
    admin.shoal("rollout", "start", "pond", "1", "--device", "heron").refused(1, "project garden, found one of default")
    moved = admin.shoal("device", "move", "heron", "--project", "garden")
    assert moved.out.endswith("is in garden\n")
    assert [one["name"] for one in keeper.shoal("device", "list", "--json").json] == ["heron"]
    assert keeper.shoal("rollout", "start", "pond", "1", "--device", "heron").code == 0
    admin.shoal("release", "move", "pond", "--project", "default").refused(1, "is under way; wait for its end")


def test_a_policy_is_lowered_by_two_people_or_on_the_server(fleet: Fleet, admin: Operator, tmp_path: Path) -> None:
    admin.shoal("project", "add", "pool")
    of_pool = ("rollout", "policy", "--project", "pool")
    assert admin.shoal(*of_pool, "--approvals", "1").out == "a rollout in pool needs 1 approval\n"
    proposed = admin.shoal(*of_pool, "--approvals", "0")
    assert "needs 1 approval; token:first proposes no approvals, which 0 of 1 approved" in proposed.out
    admin.shoal(*of_pool, "--approvals", "0", "--approve").refused(1, "fleet proposed it")
    admin.shoal(*of_pool, "--approve").refused(2, "say with --approvals N")
    other = Operator(fleet, tmp_path / "other")
    made = run_cli(fleet.program.state, "token", "add", "other", "--role", "admin", "--project", "pool").stdout.strip()
    assert other.log_in(token=made).code == 0
    assert other.shoal(*of_pool, "--approvals", "0", "--approve").out == "a rollout in pool needs no approvals\n"
    other.shoal("rollout", "policy", "--approvals", "1").refused(1, "it counts in pool")
    assert run_cli(fleet.program.state, "policy", "set", "pool", "2").returncode == 0
    assert other.shoal(*of_pool).out == "a rollout in pool needs 2 approvals\n"
