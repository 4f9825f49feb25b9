"""Does a board come in with its token, once, and nobody else?"""

import base64
import hashlib
import ssl
from collections.abc import Iterator

import httpx
import pytest
from shoal_wire import paths
from shoal_wire.encoding import decode
from shoal_wire.messages import EnrolmentResponse
from shoal_wire.token import EnrolmentToken, parse_token, write_token

from tests.system.fleet.broker_site import wait_until
from tests.system.fleet.fleet_site import Fleet, message_of, run_fleet
from tests.unit.fleet.enrolment.applicant import Applicant


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        reply = fleet.http.post("/api/v1/enrolment-tokens", json={"name": "early"})
        assert (reply.status_code, "no publisher yet" in message_of(reply)) == (409, True)
        fleet.begin()
        yield fleet


def test_token_names_the_authority_and_root_that_are_served(fleet: Fleet) -> None:
    token = parse_token(fleet.make_token("names"))
    reply = httpx.get(token.url + paths.AUTHORITY, verify=fleet.context, trust_env=False)
    der = ssl.PEM_cert_to_DER_cert(reply.text)
    assert hashlib.sha256(der).hexdigest() == token.ca_sha256
    root = base64.b64decode(fleet.get("/api/v1/trust")["root"])
    assert hashlib.sha256(root).hexdigest() == token.root_sha256


def test_same_token_with_the_same_keys_gets_the_same_answer(fleet: Fleet) -> None:
    token, applicant = fleet.make_token("same"), Applicant()
    first = fleet.ask_to_enrol(token, applicant.sign())
    again = fleet.ask_to_enrol(token, applicant.sign())
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    answer = decode(first.content, EnrolmentResponse, what="answer")
    shown = fleet.get("/api/v1/devices/same")
    assert (shown["id"], shown["profile"]) == (answer.device, "generic-x86")
    assert f"https://127.0.0.1:{answer.devices_url.rpartition(':')[2]}" == fleet.program.addresses["devices_url"]


def test_same_token_with_other_keys_is_refused(fleet: Fleet) -> None:
    token = fleet.make_token("other")
    assert fleet.ask_to_enrol(token, Applicant().sign()).status_code == 200
    reply = fleet.ask_to_enrol(token, Applicant().sign())
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "not_allowed")
    assert "spent by a board with other keys" in message_of(reply)


def test_wrong_token_is_refused(fleet: Fleet) -> None:
    right = parse_token(fleet.make_token("wrong"))
    wrong = write_token(EnrolmentToken(right.url, "A" * 43, right.ca_sha256, right.root_sha256))
    reply = fleet.ask_to_enrol(wrong, Applicant().sign())
    assert (reply.status_code, message_of(reply)) == (401, "enrolment token: not of this fleet")


def test_api_token_is_no_enrolment_token_and_the_other_way_round(fleet: Fleet) -> None:
    reply = fleet.http.post(paths.ENROL, content=Applicant().sign())
    assert reply.status_code == 401
    secret = parse_token(fleet.make_token("roles")).secret
    reply = fleet.http.get("/api/v1/devices", headers={"Authorization": f"Bearer {secret}"})
    assert reply.status_code == 401


def test_expired_token_is_refused(fleet: Fleet) -> None:
    token, applicant = fleet.make_token("late", ttl_s=1), Applicant()

    def ended() -> bool:
        reply = fleet.ask_to_enrol(token, applicant.sign())
        return reply.status_code == 401 and "enrolment token for 'late': ended at" in message_of(reply)

    wait_until(ended, what="the token ended")


def test_request_without_token_is_refused(fleet: Fleet) -> None:
    reply = fleet.http.post(paths.ENROL, content=Applicant().sign(), headers={"Authorization": ""})
    assert (reply.status_code, "no enrolment token" in message_of(reply)) == (401, True)


def test_request_signed_by_another_key_is_refused(fleet: Fleet) -> None:
    reply = fleet.ask_to_enrol(fleet.make_token("forged"), Applicant().sign(key=Applicant().identity))
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "untrusted")


@pytest.mark.parametrize("body", [b"", b"{}", b"\x00" * 1000])
def test_nonsense_is_refused(fleet: Fleet, body: bytes) -> None:
    token = fleet.make_token(f"nonsense-{len(body)}")
    reply = fleet.ask_to_enrol(token, body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "malformed")


def test_request_that_is_too_long_is_refused(fleet: Fleet) -> None:
    reply = fleet.ask_to_enrol(fleet.make_token("long"), b" " * 200_000)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")


def test_revoked_device_can_not_enrol_again_with_its_token(fleet: Fleet) -> None:
    token, applicant = fleet.make_token("revoked"), Applicant()
    assert fleet.ask_to_enrol(token, applicant.sign()).status_code == 200
    revoked = fleet.post("/api/v1/devices/revoked/revoke", {}, status=200)
    assert revoked["revoked_at"] is not None
    reply = fleet.ask_to_enrol(token, applicant.sign())
    assert (reply.status_code, "is revoked" in message_of(reply)) == (401, True)
    reply = fleet.http.post(f"/api/v1/devices/{revoked['id']}/revoke")
    assert (reply.status_code, "revoked already" in message_of(reply)) == (409, True)
