"""Which error, and so which exit code, is each answer of a server?"""

import ssl
from collections.abc import Callable, Iterator

import httpx
import msgspec
import pytest
from shoal_fleet.command.client import Client
from shoal_fleet.command.errors import CommandError, NotFound, Unreachable, UsageError
from shoal_fleet.command.views import Trust, parse

from tests.unit.fleet.command.material import make_login

Answer = Callable[[httpx.Request], httpx.Response]


def client_of(answer: Answer) -> Client:
    return Client(make_login(), transport=httpx.MockTransport(answer))


def test_question_carries_the_token_and_the_query() -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=[1, 2])

    with client_of(answer) as client:
        assert client.get("/api/v1/answers", device="a b", limit=5) == [1, 2]
        assert client.post("/api/v1/rollouts", {"a": 1}) == [1, 2]
    assert str(asked[0].url) == "https://fleet.example:8443/api/v1/answers?device=a+b&limit=5"
    assert {request.headers["Authorization"] for request in asked} == {"Bearer shoal_secret"}
    assert (asked[1].content, asked[1].headers["Content-Type"]) == (b'{"a":1}', "application/json")


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (400, CommandError, "the reason"),
        (401, CommandError, "the reason; log in with a token that counts"),
        (403, CommandError, "the reason"),
        (404, NotFound, "the reason"),
        (409, CommandError, "the reason"),
        (422, CommandError, "the reason"),
        (500, CommandError, "the reason"),
        (503, Unreachable, "the reason"),
    ],
)
def test_refusal_has_the_servers_own_sentence(status: int, kind: type[CommandError], words: str) -> None:
    body = {"error": {"code": "x", "message": "the reason"}}
    with client_of(lambda _: httpx.Response(status, json=body)) as client:
        with pytest.raises(CommandError, match=words) as got:
            client.get("/x")
        with pytest.raises(CommandError, match=words) as posted:
            client.post("/x", {})
    assert {type(got.value), type(posted.value)} == {kind}


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"error": 1}', b'{"error": {}}', b"\xff\xfe"])
@pytest.mark.parametrize("status", [301, 307, 418, 500])
def test_refusal_without_a_sentence_says_what_was_asked(status: int, body: bytes) -> None:
    with (
        client_of(lambda _: httpx.Response(status, content=body, headers={"Location": "https://other/"})) as client,
        pytest.raises(CommandError, match=f"GET https://fleet.example:8443/x: the server answered {status}"),
    ):
        client.get("/x")


@pytest.mark.parametrize("body", [b"", b"<html>It works!</html>", b"{", b"\xff"])
def test_success_that_is_not_json_is_an_error(body: bytes) -> None:
    with (
        client_of(lambda _: httpx.Response(200, content=body)) as client,
        pytest.raises(CommandError, match="is it a Shoal fleet"),
    ):
        client.get("/x")


@pytest.mark.parametrize("answer", [None, [], {}, {"root": 1, "targets": None}, "x"])
def test_json_of_another_form_is_an_error(answer: object) -> None:
    with pytest.raises(CommandError, match="trust: not as a Shoal fleet"):
        parse(answer, Trust, what="trust")
    assert parse({"root": None, "targets": "A", "newer": 1}, Trust, what="trust") == Trust(None, "A")


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("refused"), httpx.ReadTimeout(""), httpx.RemoteProtocolError("x")]
)
def test_no_answer_is_worth_another_try(error: httpx.RequestError) -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise error

    with client_of(answer) as client, pytest.raises(Unreachable, match=r"https://fleet.example:8443: no answer"):
        client.get("/x")


def test_certificate_of_another_server_is_not_worth_another_try() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        cause = ssl.SSLCertVerificationError("certificate verify failed")
        cause.verify_message = "self-signed certificate"
        raise httpx.ConnectError("x") from cause

    with client_of(answer) as client, pytest.raises(CommandError, match="self-signed certificate") as caught:
        client.get("/x")
    assert not isinstance(caught.value, Unreachable)


def test_errors_never_repeat_the_token() -> None:
    with client_of(lambda _: httpx.Response(401, json={})) as client, pytest.raises(CommandError) as caught:
        client.get("/x")
    assert "shoal_secret" not in str(caught.value)


def test_login_without_certificate_is_refused() -> None:
    for authority in ("", "no certificate"):
        with pytest.raises(UsageError, match="no certificate in PEM"):
            Client(msgspec.structs.replace(make_login(), authority=authority))


def test_upload_says_its_length_and_passes_an_error_of_its_parts_on() -> None:
    received: list[tuple[str, bytes]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        received.append((request.headers["Content-Length"], request.read()))
        return httpx.Response(201, json={})

    def broken() -> Iterator[bytes]:
        yield b"a"
        raise CommandError("the file was changed")

    with client_of(answer) as client:
        client.put("/x", iter([b"ab", b"c"]), size_bytes=3)
        assert received == [("3", b"abc")]
        with pytest.raises(CommandError, match="the file was changed"):
            client.put("/x", broken(), size_bytes=2)


def test_what_is_missing_is_told_from_what_failed() -> None:
    with client_of(lambda request: httpx.Response(404 if request.url.path == "/none" else 200)) as client:
        assert client.exists("/there")
        assert not client.exists("/none")
    with client_of(lambda _: httpx.Response(500)) as client, pytest.raises(CommandError):
        client.exists("/x")
