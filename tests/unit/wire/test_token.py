import base64
import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from shoal_wire.errors import Malformed
from shoal_wire.token import EnrolmentToken, parse_token, write_token

SECRET = "only-once_0123456789-ABCDEFGHIJKLMNOPQRSTUV"
TOKEN = EnrolmentToken(url="https://fleet.example:8443", secret=SECRET, ca_sha256="a" * 64, root_sha256="b" * 64)
TEXT = write_token(TOKEN)
PARTS = {"url": TOKEN.url, "secret": SECRET, "ca_sha256": "a" * 64, "root_sha256": "b" * 64}


def write(parts: Any) -> str:
    raw = parts if isinstance(parts, bytes) else json.dumps(parts).encode()
    return "shoal1." + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def refused(text: str, *, message: str = "") -> None:
    """Asserts that a text is refused without repeating the secret in any of its forms."""
    with pytest.raises(Malformed, match=rf"^enrolment token: .*{message}") as caught:
        parse_token(text)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for secret in (SECRET, base64.urlsafe_b64encode(SECRET.encode()).decode()[:20], TEXT[7:40]):
        assert secret not in str(caught.value)


@pytest.mark.parametrize("text", [TEXT, f" {TEXT}", f"\t{TEXT}\r\n", f"\u00a0{TEXT}\u2003"])
def test_white_space_around_a_token_is_ignored(text: str) -> None:
    assert parse_token(text) == TOKEN


def test_tokens_of_any_length_of_url_read_back() -> None:
    for length in range(1, 9):
        token = replace(TOKEN, url="https://" + "h" * length)
        assert parse_token(write_token(token)) == token


def test_token_is_one_word() -> None:
    assert TEXT.startswith("shoal1.")
    assert TEXT.isascii()
    assert not set(TEXT) & set(" =+/\n\"'")


def test_token_cut_short_anywhere_is_refused() -> None:
    for length in range(len(TEXT)):
        refused(TEXT[:length])
        refused(TEXT[length + 1 :])


@given(place=st.integers(7, len(TEXT) - 1), letter=st.characters())
@settings(max_examples=50, deadline=None)
def test_letter_changed_never_shows_the_secret(place: int, letter: str) -> None:
    text = TEXT[:place] + letter + TEXT[place + 1 :]
    assume(text.strip() != TEXT)
    try:
        assert parse_token(text) != TOKEN
    except Malformed as error:
        assert SECRET[:20] not in str(error)
        assert TEXT[7:40] not in str(error)


@pytest.mark.parametrize("between", [" ", "\n", "\r\n    ", "=", "+", "/", ".", "é", "\ud800", "\0"])
def test_token_with_something_in_between_is_refused(between: str) -> None:
    refused(TEXT[:50] + between + TEXT[50:], message="damaged")


@pytest.mark.parametrize(
    "text", ["", "shoal1", TEXT[7:], "shoal2." + TEXT[7:], "SHOAL1." + TEXT[7:], "x" + TEXT, "é", "\ud800"]
)
def test_other_text_is_refused(text: str) -> None:
    refused(text, message="expected one string that starts with 'shoal1.'")


def test_padded_token_is_refused() -> None:
    refused(TEXT + "=", message="damaged")


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (b"", "truncated"),
        (b"\xff\xff", "malformed"),
        (json.dumps(PARTS).encode().replace(b"fleet", b"\xff"), "UTF-8"),
        ([SECRET], "Expected `object`"),
        ({}, "missing required field"),
        (PARTS | {"url": "http://fleet.example"}, r"\$\.url"),
        (PARTS | {"url": "https://fleet.example/path"}, r"\$\.url"),
        (PARTS | {"url": "https://fleet.example\n"}, r"\$\.url"),
        (PARTS | {"url": "https://" + "h" * 300}, r"\$\.url"),
        (PARTS | {"url": SECRET}, r"\$\.url"),
        (PARTS | {"secret": SECRET[:31]}, r"\$\.secret"),
        (PARTS | {"secret": SECRET + "\n"}, r"\$\.secret"),
        (PARTS | {"secret": SECRET * 4}, r"\$\.secret"),
        (PARTS | {"ca_sha256": SECRET}, r"\$\.ca_sha256"),
        (PARTS | {"root_sha256": "B" * 64}, r"\$\.root_sha256"),
    ],
)
def test_parts_that_are_not_as_agreed_are_refused(parts: Any, message: str) -> None:
    refused(write(parts), message=message)


def test_too_long_a_text_is_refused() -> None:
    refused(write(PARTS | {"note": "x" * 4096}))


def test_unknown_part_is_ignored() -> None:
    assert parse_token(write(PARTS | {"of_the_future": 1})) == TOKEN
