"""Does every error become one form of answer, with a sentence and without secrets?"""

import asyncio

import httpx
import pytest
from fastapi import FastAPI
from shoal_fleet import errors
from shoal_fleet.api import MAX_BODY_BYTES, BodyLimit, install_error_answers
from shoal_fleet.pki.errors import BadCsr, BrokenAuthority
from shoal_wire.errors import Damaged, Malformed, Unsupported, Untrusted
from sqlalchemy.exc import IntegrityError

RAISED: list[Exception] = []


def fail() -> None:
    raise RAISED[-1]


def echo_size(body: dict[str, str]) -> int:
    return len(body)


class Client:
    """Asks an application without a network."""

    def __init__(self) -> None:
        app = FastAPI()
        install_error_answers(app)
        app.add_api_route("/fail", fail)
        app.add_api_route("/size", echo_size, methods=["POST"])
        limited = BodyLimit(app, unlimited="/upload/")
        self._transport = httpx.ASGITransport(limited, raise_app_exceptions=False)

    def get(self, path: str) -> httpx.Response:
        return asyncio.run(self._ask("GET", path, b""))

    def post(self, path: str, body: bytes) -> httpx.Response:
        return asyncio.run(self._ask("POST", path, body))

    async def _ask(self, method: str, path: str, body: bytes) -> httpx.Response:
        async with httpx.AsyncClient(transport=self._transport, base_url="https://fleet.example") as http:
            return await http.request(method, path, content=body, headers={"Content-Type": "application/json"})


@pytest.fixture
def client() -> Client:
    return Client()


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (errors.NotAllowed("a reason"), 401, "not_allowed"),
        (errors.WrongRole("a reason"), 403, "wrong_role"),
        (errors.CrossSite("a reason"), 403, "cross_site"),
        (errors.NotFound("a reason"), 404, "not_found"),
        (errors.Conflict("a reason"), 409, "conflict"),
        (errors.TooLarge("a reason"), 413, "too_large"),
        (errors.Refused("a reason"), 422, "refused"),
        (errors.BrokenState("a reason"), 500, "broken_state"),
        (Malformed("a reason"), 422, "malformed"),
        (Unsupported("a reason"), 422, "unsupported"),
        (Untrusted("a reason"), 422, "untrusted"),
        (Damaged("a reason"), 422, "damaged"),
        (BadCsr("a reason"), 422, "bad_csr"),
        (BrokenAuthority("a reason"), 500, "broken_state"),
    ],
)
def test_each_error_has_its_status(client: Client, error: Exception, status: int, code: str) -> None:
    RAISED.append(error)
    reply = client.get("/fail")
    assert (reply.status_code, reply.json()) == (status, {"error": {"code": code, "message": "a reason"}})


def test_every_error_of_the_fleet_has_an_answer(client: Client) -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.FleetError)]
    for kind in kinds:
        if kind not in (errors.FleetError, errors.LoginNeeded):
            RAISED.append(kind("a reason", wait_s=3.2) if kind is errors.TooSoon else kind("a reason"))
            assert client.get("/fail").json()["error"]["message"] == "a reason"


def test_who_comes_too_soon_is_told_when_to_come_again(client: Client) -> None:
    RAISED.append(errors.TooSoon("a reason", wait_s=3.2))
    reply = client.get("/fail")
    assert (reply.status_code, reply.json()["error"]["code"], reply.headers["Retry-After"]) == (429, "too_soon", "4")


def test_who_must_log_in_is_sent_there_and_told_the_way_back(client: Client) -> None:
    RAISED.append(errors.LoginNeeded("a reason"))
    reply = client.get("/fail")
    assert (reply.status_code, reply.headers["Location"]) == (303, "/login?next=/fail")


def test_what_is_taken_is_said_without_who_has_it(client: Client) -> None:
    RAISED.append(IntegrityError("INSERT INTO device", {"name": "a secret"}, Exception("UNIQUE constraint failed")))
    reply = client.get("/fail")
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")
    assert "secret" not in reply.text


def test_crash_tells_nothing_of_itself(client: Client) -> None:
    RAISED.append(RuntimeError("a secret"))
    reply = client.get("/fail")
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "internal_error"
    assert "a secret" not in reply.text


def test_body_that_is_too_long_is_refused(client: Client) -> None:
    reply = client.post("/size", b" " * (MAX_BODY_BYTES + 1))
    assert reply.status_code == 413
    assert str(MAX_BODY_BYTES) in reply.json()["error"]["message"]


def test_longest_body_is_read(client: Client) -> None:
    reply = client.post("/size", b"{}" + b" " * (MAX_BODY_BYTES - 2))
    assert (reply.status_code, reply.json()) == (200, 0)
