"""Does a person get in and out by the forms, and does nobody else's page do it for them?"""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest
from fastapi import FastAPI
from shoal_fleet.access import users
from shoal_fleet.access.client_address import ClientAddresses
from shoal_fleet.access.csrf import csrf_word
from shoal_fleet.access.gate import COOKIE, Gate
from shoal_fleet.access.roles import Role
from shoal_fleet.api import install_error_answers
from shoal_fleet.console import login
from shoal_fleet.console import routes as console
from shoal_fleet.database import Sessions

from tests.unit.fleet.access.people import PASSWORD, add_user, quick_passwords
from tests.unit.fleet.boards import NOW, close_database, make_database
from tests.unit.fleet.console.browser import HOME, Browser


class Person(Browser):
    """Somebody with a browser, behind a proxy of the fleet's."""

    def __init__(self, app: FastAPI, held_up: list[float]) -> None:
        super().__init__(app)
        self.held_up = held_up
        """How long each attempt that was held up at all was."""

    def log_in(
        self, *, name: str = "anna", password: str = PASSWORD, path: str = "/login", address: str = "192.0.2.1"
    ) -> httpx.Response:
        return self.send(path, forwarded_for=address, name=name, password=password)

    def word(self) -> str:
        """What a form of the present page says that it comes from one."""
        return str(re.findall(r'name="csrf" value="([^"]+)"', self.get("/account").text)[0])


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    add_user(made, "anna", Role.VIEWER)
    yield made
    close_database(made)


@pytest.fixture
def browser(sessions: Sessions) -> Person:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install_error_answers(app)
    gate = Gate(sessions, clock=lambda: NOW)
    held_up: list[float] = []

    async def sleep(seconds: float) -> None:
        held_up.append(seconds)

    app.include_router(
        login.make_router(
            sessions=sessions,
            gate=gate,
            clock=lambda: NOW,
            passwords=quick_passwords(),
            addresses=ClientAddresses(["127.0.0.1"]),
            sleep=sleep,
        )
    )
    app.include_router(
        console.make_router(
            sessions=gate.sessions, gate=gate, clock=lambda: NOW, describe=app.openapi, approve=lambda *_: None
        )
    )
    return Person(app, held_up)


@pytest.mark.parametrize("path", ["/", "/status", "/docs", "/account"])
def test_who_is_not_logged_in_is_sent_to_the_form_and_back(browser: Person, path: str) -> None:
    sent = browser.get(path)
    assert (sent.status_code, sent.headers["Location"]) == (303, f"/login?next={path}")
    assert "WWW-Authenticate" not in sent.headers
    form = browser.get(sent.headers["Location"])
    assert form.status_code == 200
    action = re.findall(r'action="([^"]+)"', form.text)[0]
    back = browser.log_in(path=action)
    assert (back.status_code, back.headers["Location"]) == (303, path)
    assert browser.get(path).status_code == 200


def test_the_cookie_is_for_this_site_and_no_script(browser: Person) -> None:
    cookie = browser.log_in().headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert "Max-Age" not in cookie.partition(login.BROWSER_COOKIE)[0]


@pytest.mark.parametrize(("name", "password"), [("anna", "not her password"), ("nobody", PASSWORD)])
def test_a_wrong_login_gets_the_form_again_without_what_was_typed(browser: Person, name: str, password: str) -> None:
    reply = browser.log_in(name=name, password=password)
    assert reply.status_code == 403
    assert "name or password is wrong" in reply.text
    assert password not in reply.text
    assert "Set-Cookie" not in reply.headers


def test_too_many_wrong_logins_must_wait(browser: Person) -> None:
    for _ in range(5):
        browser.log_in(password="wrong")
    reply = browser.log_in()
    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "2")
    assert "try again in 2 s" in reply.text


def test_who_fails_elsewhere_keeps_nobody_out(browser: Person) -> None:
    for _ in range(6):
        browser.log_in(password="wrong", address="198.51.100.1")
    assert browser.log_in(address="198.51.100.1").status_code == 429
    assert browser.log_in(address="198.51.100.1, 203.0.113.5").status_code == 303


def test_a_name_that_many_try_is_held_up_and_let_in(browser: Person) -> None:
    for number in range(25):
        browser.log_in(password="wrong", address=f"198.51.100.{number}")
    assert browser.held_up == [0.25, 0.5, 1.0, 2.0, 4.0]
    assert browser.log_in().status_code == 303
    assert browser.held_up[5:] == [8.0]


def test_a_browser_that_was_in_before_is_not_held_up(browser: Person) -> None:
    cookies = browser.log_in().headers.get_list("Set-Cookie")
    (known,) = [cookie for cookie in cookies if cookie.startswith(login.BROWSER_COOKIE)]
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict", "Max-Age=7776000"} <= set(known.split("; "))
    secret = browser.cookies[login.BROWSER_COOKIE]
    browser.cookies.clear()
    for number in range(25):
        browser.log_in(password="wrong", address=f"198.51.100.{number}")
    for _ in range(6):
        browser.log_in(password="wrong")
    assert browser.log_in().status_code == 429
    already_held_up = len(browser.held_up)
    browser.cookies.set(login.BROWSER_COOKIE, secret, domain="fleet.example")
    assert browser.log_in().status_code == 303
    assert len(browser.held_up) == already_held_up
    assert browser.cookies[login.BROWSER_COOKIE] == secret


@pytest.mark.parametrize(
    "wanted",
    ["//evil.example", "https://evil.example", "/\\evil.example", "/%2Fevil", "javascript:x", "/a\nb", "", '"><b>'],
)
def test_nobody_is_sent_elsewhere_after_the_login(browser: Person, wanted: str) -> None:
    path = "/login?" + urlencode({"next": wanted})
    assert wanted == "" or wanted not in browser.get(path).text
    assert browser.log_in(path=path).headers["Location"] == "/status"


def test_another_site_logs_nobody_in(browser: Person) -> None:
    reply = browser.send("/login", origin="https://evil.example", name="anna", password=PASSWORD)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "cross_site")


def test_logging_out_ends_the_session(browser: Person) -> None:
    browser.log_in()
    cookie = browser.cookies[COOKIE]
    reply = browser.send("/logout", csrf=browser.word())
    assert (reply.status_code, reply.headers["Location"]) == (303, "/login")
    assert COOKIE not in browser.cookies
    browser.cookies.set(COOKIE, cookie)
    assert browser.get("/status").status_code == 303


@pytest.mark.parametrize("path", ["/logout", "/account/password"])
def test_a_form_of_another_site_does_nothing(browser: Person, path: str) -> None:
    browser.log_in()
    word = csrf_word(browser.cookies[COOKIE])
    for origin, given in ((HOME, ""), (HOME, "guessed"), ("https://evil.example", word)):
        reply = browser.send(path, origin=origin, csrf=given, password=PASSWORD, new_password="stolen by a page")
        assert (reply.status_code, reply.json()["error"]["code"]) == (403, "cross_site")
    assert browser.get("/status").status_code == 200


def test_a_person_changes_their_password_and_logs_in_anew(browser: Person) -> None:
    browser.log_in()
    word = browser.word()
    wrong = browser.send("/account/password", csrf=word, password="wrong", new_password="another long one")
    assert (wrong.status_code, "is wrong" in wrong.text) == (403, True)
    short = browser.send("/account/password", csrf=word, password=PASSWORD, new_password="short")
    assert (short.status_code, "expected 12 to 256" in short.text) == (403, True)
    reply = browser.send("/account/password", csrf=word, password=PASSWORD, new_password="another long one")
    assert (reply.status_code, reply.headers["Location"]) == (303, "/login")
    assert browser.get("/status").status_code == 303
    assert browser.log_in().status_code == 403
    assert browser.log_in(password="another long one").status_code == 303


def test_a_page_says_who_is_logged_in(browser: Person) -> None:
    browser.log_in()
    page = browser.get("/status").text
    assert ">anna</a>" in page
    assert 'action="/logout"' in page


@pytest.mark.parametrize("length", [16 << 10, 1 << 20])
def test_a_form_that_is_none_of_these_pages_is_refused(browser: Person, length: int) -> None:
    reply = browser.send("/login", name="anna", password="x" * length)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "too_large")


def test_who_was_disabled_is_out_at_the_next_page(browser: Person, sessions: Sessions) -> None:
    browser.log_in()
    with sessions() as session:
        users.set_disabled(session, "anna", is_disabled=True, actor="host:test", now=NOW)
    assert browser.get("/status").status_code == 303


@pytest.mark.parametrize("path", ["/login", "/status", "/docs", "/account"])
def test_every_page_has_the_headers_that_keep_others_out(browser: Person, path: str) -> None:
    browser.log_in()
    headers = browser.get(path).headers
    policy = headers["Content-Security-Policy"]
    for directive in ("default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"):
        assert directive in policy
    assert "unsafe" not in policy
    assert (headers["X-Content-Type-Options"], headers["Referrer-Policy"]) == ("nosniff", "same-origin")
    assert headers["Cache-Control"] == "no-store"
