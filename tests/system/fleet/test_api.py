"""Does the operators' listener let the right ones in, refuse clearly, and survive a restart?"""

import base64
import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from securesystemslib.signer import CryptoSigner

from tests.publisher import make_release, text
from tests.system.fleet.broker_site import wait_until
from tests.system.fleet.fleet_site import (
    DEADLINE_S,
    Fleet,
    FleetProgram,
    basic,
    lives,
    message_of,
    run_cli,
    run_fleet,
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One fleet with a publisher, for tests that only read or only are refused."""
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.begin()
        yield fleet


def test_health_needs_no_token(fleet: Fleet) -> None:
    reply = fleet.http.get("/api/v1/health", headers={"Authorization": ""})
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/api/v1/devices", "/api/v1/fleet-keys", "/api/v1/openapi.json"])
def test_everything_else_needs_one(fleet: Fleet, path: str) -> None:
    reply = fleet.http.get(path, headers={"Authorization": ""})
    assert reply.status_code == 401
    assert reply.headers["WWW-Authenticate"].startswith("Basic")
    assert "no API token" in message_of(reply)


def test_wrong_token_is_refused_and_not_repeated(fleet: Fleet) -> None:
    reply = fleet.http.get("/api/v1/devices", headers={"Authorization": "Bearer shoal_wrong"})
    assert reply.status_code == 401
    assert message_of(reply) == "API token: not known to this fleet"


@pytest.mark.parametrize("path", ["/api/v1/devices", "/", "/status", "/docs"])
def test_browser_comes_in_with_the_token_as_password(fleet: Fleet, path: str) -> None:
    assert fleet.http.get(path, headers=basic(fleet.token)).status_code == 200


def test_reader_reads_and_may_not_change(fleet: Fleet) -> None:
    made = run_cli(fleet.program.state, "token", "add", "reader", "--role", "viewer")
    assert made.returncode == 0, made.stderr
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    assert fleet.http.get("/api/v1/devices", headers=headers).status_code == 200
    reply = fleet.http.post("/api/v1/enrolment-tokens", json={"name": "x"}, headers=headers)
    assert (reply.status_code, message_of(reply)) == (
        403,
        "token:reader: expected the role operator, found viewer of *",
    )
    assert run_cli(fleet.program.state, "token", "revoke", "reader").returncode == 0
    assert fleet.http.get("/api/v1/devices", headers=headers).status_code == 401


def test_every_route_is_described_and_names_its_error(fleet: Fleet) -> None:
    described = fleet.get("/api/v1/openapi.json")["paths"]
    for path in (
        "/api/v1/devices/{device}/revoke",
        "/api/v1/enrolment-tokens",
        "/api/v1/trust",
        "/api/v1/sealed/{ciphertext_sha256}",
        "/api/v1/releases/{name}/{version}",
        "/api/v1/rollouts/{rollout}/abort",
        "/api/v1/tuning",
        "/api/v1/tuning/known",
        "/v1/enrol",
        "/v1/authority.pem",
    ):
        for operation in described[path].values():
            assert "default" in operation["responses"], path
            assert operation["description"], path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1/devices/none", 404),
        ("DELETE", "/api/v1/devices", 405),
        ("GET", "/api/v1/releases/m/99999999999999999999", 422),
        ("GET", "/api/v1/releases/m/9", 404),
        ("GET", "/v1/sealed/" + "0" * 64, 404),
        ("GET", "/v1/tuf/metadata/timestamp.json", 404),
    ],
)
def test_wrong_paths_are_refused_in_the_agreed_form(fleet: Fleet, method: str, path: str, status: int) -> None:
    reply = fleet.http.request(method, path)
    assert reply.status_code == status
    assert message_of(reply)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"ttl_s": 60}',
        b'{"name": 7}',
        b'{"name": ""}',
        b'{"name": "a/b"}',
        b'{"name": "x\\n"}',
        b'{"name": "x", "ttl_s": 0}',
        b'{"name": "x", "ttl_s": 1e300}',
        b"[" * 100_000,
    ],
)
def test_wrong_bodies_are_refused_in_the_agreed_form(fleet: Fleet, body: bytes) -> None:
    reply = fleet.http.post("/api/v1/enrolment-tokens", content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code in (400, 422)
    assert message_of(reply)


def test_body_without_end_is_cut_off(fleet: Fleet) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(17):
            yield b" " * (1 << 20)

    try:
        reply = fleet.http.post("/api/v1/releases", content=parts(), headers={"Content-Type": "application/json"})
    except httpx.TransportError:
        return  # the fleet closed the connection while the body was still being sent
    assert reply.status_code == 413
    assert "at most 16777216 bytes" in message_of(reply)


def test_sealed_file_is_taken_only_under_its_digest(fleet: Fleet) -> None:
    release = make_release("m", 1, plaintext=b"x" * 3_000_000)
    path = f"/api/v1/sealed/{release.ciphertext_sha256}"
    assert fleet.http.head(path).status_code == 404
    reply = fleet.http.put(path, content=release.ciphertext[:-1])
    assert reply.status_code == 422
    assert "with sha256" in message_of(reply)
    assert fleet.http.head(path).status_code == 404
    fleet.upload(release)
    found = fleet.http.head(path)
    assert (found.status_code, int(found.headers["Content-Length"])) == (200, len(release.ciphertext))


def test_upload_that_is_cut_off_leaves_nothing(fleet: Fleet) -> None:
    release = make_release("m", 1, plaintext=b"cut off" * 1000)
    incoming = fleet.program.state / "sealed" / "incoming"
    url = httpx.URL(fleet.program.addresses["operators_url"])
    head = (
        f"PUT /api/v1/sealed/{release.ciphertext_sha256} HTTP/1.1\r\nHost: {url.host}\r\n"
        f"Authorization: Bearer {fleet.token}\r\nContent-Length: {len(release.ciphertext)}\r\n\r\n"
    )
    with (
        socket.create_connection((url.host, url.port or 0), timeout=DEADLINE_S) as plain,
        fleet.context.wrap_socket(plain, server_hostname=url.host) as connection,
    ):
        connection.sendall(head.encode() + release.ciphertext[:-1])
        wait_until(lambda: any(incoming.iterdir()), what="the upload began")
    wait_until(lambda: not any(incoming.iterdir()), what="its rest was removed")
    assert fleet.http.head(f"/api/v1/sealed/{release.ciphertext_sha256}").status_code == 404
    assert "Traceback" not in fleet.program.log.read_text()


def test_second_publisher_is_refused(fleet: Fleet) -> None:
    reply = fleet.http.post("/api/v1/trust", json=fleet.publisher.ceremony())
    assert reply.status_code == 409
    assert "has a publisher already" in message_of(reply)


def test_release_is_taken_in_order_and_whole(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        early = fleet.http.post("/api/v1/releases", json=fleet.release_body(make_release("m", 1)))
        assert (early.status_code, "no publisher yet" in message_of(early)) == (409, True)
        fleet.publisher.targets.version = 1
        fleet.publisher.targets.targets.pop("m/1/manifest.json")
        fleet.begin()
        release = make_release("m", 1)
        body = fleet.release_body(release)

        missing = fleet.http.post("/api/v1/releases", json=body)
        assert missing.status_code == 422
        assert f"expected the sealed file {release.ciphertext_sha256}" in message_of(missing)
        fleet.upload(release)

        changed = bytearray(release.manifest)
        changed[20] ^= 1
        reply = fleet.http.post("/api/v1/releases", json=body | {"manifest": text(bytes(changed))})
        assert reply.status_code == 422

        forged = fleet.publisher.signed_targets(signer=CryptoSigner.generate_ed25519())
        reply = fleet.http.post("/api/v1/releases", json=body | {"targets": text(forged)})
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "untrusted")

        fleet.publisher.targets.version = 3
        ahead = fleet.publisher.signed_targets()
        reply = fleet.http.post("/api/v1/releases", json=body | {"targets": text(ahead)})
        assert (reply.status_code, message_of(reply)) == (409, "targets metadata: expected version 2, found 3")

        made = fleet.post("/api/v1/releases", body)
        assert (made["name"], made["version"]) == ("m", 1)
        assert [row["manifest_sha256"] for row in fleet.get("/api/v1/releases")] == [made["manifest_sha256"]]
        assert fleet.get("/api/v1/releases/m/1")["manifest"]["files"][0]["name"] == "model"
        assert base64.b64decode(fleet.get("/api/v1/trust")["targets"]) == base64.b64decode(str(body["targets"]))


def test_killed_fleet_takes_its_broker_along_and_comes_back_where_it_was(tmp_path: Path) -> None:
    with run_fleet(tmp_path) as fleet:
        fleet.begin()
        fleet.publish(make_release("m", 1))
        board = fleet.enrol("yard-1")
        broker = fleet.program.broker_pid()
        fleet.program.end(signal.SIGKILL)
        wait_until(lambda: not lives(broker), what="the broker ended")
        again = FleetProgram(tmp_path / "state")
        try:
            assert again.addresses == fleet.program.addresses
            assert [sorted(line) for line in again.lines] == [sorted(fleet.program.addresses)]
            assert [row["id"] for row in fleet.get("/api/v1/devices")] == [board.answer.device]
            assert [row["version"] for row in fleet.get("/api/v1/releases")] == [1]
        finally:
            assert again.end() == 0


def test_second_server_on_the_same_state_is_refused(fleet: Fleet) -> None:
    second = run_cli(fleet.program.state, "serve", "--port", "0", "--devices-port", "0", "--broker-port", "0")
    assert second.returncode == 1
    assert "another shoal-fleet serves from this state folder" in second.stderr


def test_init_prints_its_token_once(tmp_path: Path) -> None:
    first = json.loads(run_cli(tmp_path / "state", "init").stdout)
    second = json.loads(run_cli(tmp_path / "state", "init").stdout)
    assert first["token"].startswith("shoal_")
    assert second == first | {"token": None}


def test_wrong_configuration_names_every_fault(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "fleet.toml").write_text("prot = 1\nhost = 7\n")
    done = run_cli(tmp_path / "state", "serve", environment=[("SHOAL_PORT", "many")])
    assert done.returncode == 2
    assert [fault for fault in ("'prot'", "host", "SHOAL_PORT") if fault not in done.stderr] == []
