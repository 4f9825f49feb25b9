"""Does a person get in whom the identity provider vouches for, and nobody with anything less than its word?"""

import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from shoal_fleet.access import oidc, users
from shoal_fleet.access.client_address import ClientAddresses
from shoal_fleet.access.gate import COOKIE, Gate
from shoal_fleet.access.roles import Held, Role
from shoal_fleet.access.vouching import RECHECK_S, Vouching
from shoal_fleet.api import install_error_answers
from shoal_fleet.configuration import OidcSettings
from shoal_fleet.console import login, provider_login
from shoal_fleet.console import routes as console
from shoal_fleet.database import Sessions
from shoal_fleet.errors import BadConfiguration, ProviderDown

from tests.system.fleet.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, run_provider
from tests.unit.fleet.access.people import add_user, quick_passwords
from tests.unit.fleet.boards import close_database, make_database
from tests.unit.fleet.console.browser import HOME, Browser

pytest.importorskip("authlib.integrations.httpx_client", reason="needs shoal-fleet[oidc]")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IdentityProvider, Path]]:
    with run_provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture
def provider(running: tuple[IdentityProvider, Path]) -> IdentityProvider:
    """The provider, without any fault."""
    running[0].reset()
    return running[0]


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)


class Clock:
    """The present time, and what a test adds to it."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Person(Browser):
    """Somebody whose browser knows the provider, too."""

    def __init__(self, app: FastAPI, *, authority: Path, vouching: Vouching) -> None:
        super().__init__(app)
        self.vouching = vouching
        self._context = ssl.create_default_context(cafile=authority)

    def begin(self, path: str = "/login/provider") -> str:
        """Up to the provider's page; returns where that page is."""
        reply = self.get(path)
        assert reply.status_code == 303, reply.text
        return str(reply.headers["Location"])

    def agree(self, url: str) -> str:
        """Say yes at the provider; returns where it sends the browser."""
        return str(httpx.get(url, verify=self._context, trust_env=False, timeout=60).headers["Location"])

    def finish(self, url: str) -> httpx.Response:
        assert url.startswith(f"{HOME}/login/provider/callback?")
        return self.get(url.removeprefix(HOME))

    def log_in(self) -> httpx.Response:
        return self.finish(self.agree(self.begin()))


@pytest.fixture
def browser(
    provider: IdentityProvider,
    running: tuple[IdentityProvider, Path],
    sessions: Sessions,
    tmp_path: Path,
    clock: Clock,
) -> Person:
    secret = tmp_path / "secret"
    secret.write_text(CLIENT_SECRET + "\n")
    settings = OidcSettings(
        issuer=provider.issuer,
        client_id=CLIENT_ID,
        client_secret_file=str(secret),
        ca_file=str(running[1]),
        roles={"keepers": ("operator@default", "viewer@*"), "chiefs": ("admin@*",), "lost": ("viewer@nowhere",)},
    )
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    install_error_answers(app)
    gate = Gate(sessions, clock=clock)
    made = oidc.Provider(settings, redirect_uri=HOME + provider_login.CALLBACK_PATH, clock=clock)
    vouching = Vouching(sessions, provider=made, session_s=settings.session_s, clock=clock)
    addresses = ClientAddresses()
    app.include_router(
        provider_login.make_router(
            sessions=sessions, clock=clock, provider=made, vouching=vouching, addresses=addresses
        )
    )
    app.include_router(
        console.make_router(
            sessions=gate.sessions, gate=gate, clock=clock, describe=app.openapi, approve=lambda *_: None
        )
    )
    app.include_router(
        login.make_router(
            sessions=sessions,
            gate=gate,
            clock=clock,
            passwords=quick_passwords(),
            has_provider=True,
            addresses=addresses,
        )
    )
    return Person(app, authority=running[1], vouching=vouching)


def roles_of(sessions: Sessions, name: str) -> set[Held]:
    with sessions() as session:
        return set(users.list_roles(session, users.find_user(session, name)))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_person_gets_in_with_the_roles_of_their_groups(
    browser: Person, provider: IdentityProvider, sessions: Sessions, algorithm: str
) -> None:
    provider.algorithm = algorithm
    assert "/login/provider?next=/docs" in browser.get("/login?next=/docs").text
    reply = browser.finish(browser.agree(browser.begin("/login/provider?next=/docs")))
    assert (reply.status_code, "You are logged in" in reply.text) == (200, True)
    assert 'content="0; url=/docs"' in reply.text
    assert ">carla</a>" in browser.get("/docs").text
    assert roles_of(sessions, "carla") == {Held("default", Role.OPERATOR), Held("*", Role.VIEWER)}


def test_who_has_no_password_here_is_offered_no_other(browser: Person) -> None:
    browser.log_in()
    page = browser.get("/account").text
    assert "carla has no password here" in page
    assert 'type="password"' not in page


def test_the_session_cookie_is_strict_and_the_one_for_the_way_is_gone(browser: Person) -> None:
    began = browser.get("/login/provider")
    assert "SameSite=lax" in began.headers["Set-Cookie"]
    reply = browser.finish(browser.agree(began.headers["Location"]))
    cookies = reply.headers.get_list("Set-Cookie")
    assert [cookie for cookie in cookies if cookie.startswith(f"{COOKIE}=") and "SameSite=strict" in cookie]
    assert provider_login.ATTEMPT_COOKIE not in browser.cookies


def test_roles_follow_the_groups_at_each_login(browser: Person, provider: IdentityProvider, sessions: Sessions) -> None:
    browser.log_in()
    provider.claims["groups"] = ["chiefs"]
    browser.log_in()
    assert roles_of(sessions, "carla") == {Held("*", Role.ADMIN)}
    provider.claims["groups"] = []
    reply = browser.log_in()
    assert (reply.status_code, "has a role here" in reply.text) == (403, True)
    assert roles_of(sessions, "carla") == set()
    assert browser.get("/status").status_code == 303


def test_a_person_is_known_by_the_subject_and_not_by_the_name(
    browser: Person, provider: IdentityProvider, sessions: Sessions
) -> None:
    add_user(sessions, "carla", Role.ADMIN)
    reply = browser.log_in()
    assert (reply.status_code, "is another one" in reply.text) == (403, True)
    provider.claims["preferred_username"] = "carla.c"
    assert browser.log_in().status_code == 200
    provider.claims["preferred_username"] = "renamed"
    assert browser.log_in().status_code == 200
    with sessions() as session:
        assert [one.row.name for one in users.list_users(session)] == ["carla", "carla.c"]


def test_who_is_disabled_here_stays_out(browser: Person, sessions: Sessions) -> None:
    browser.log_in()
    with sessions() as session:
        users.set_disabled(session, "carla", is_disabled=True, actor="host:test", now=time.time())
    reply = browser.log_in()
    assert (reply.status_code, "is disabled here" in reply.text) == (403, True)


@pytest.mark.parametrize("has_nonce", [True, False], ids=["with-nonce", "without-nonce"])
def test_a_login_goes_on_while_the_provider_renews_it(
    browser: Person, provider: IdentityProvider, clock: Clock, has_nonce: bool
) -> None:
    provider.gives_refresh_tokens, provider.repeats_nonce = True, has_nonce
    browser.log_in()
    for _ in range(6):
        clock.ahead_s += RECHECK_S
        browser.vouching.look()
        assert browser.get("/status").status_code == 200
    assert provider.renewed == 6


def test_without_a_refresh_token_a_login_lasts_an_hour(browser: Person, clock: Clock) -> None:
    browser.log_in()
    for ahead_s, status in ((3500.0, 200), (3700.0, 303)):
        clock.ahead_s = ahead_s
        browser.vouching.look()
        assert browser.get("/status").status_code == status


TAKEN_AWAY: dict[str, dict[str, Any]] = {
    "all groups": {"claims": {"sub": "7", "preferred_username": "carla", "groups": []}},
    "the claim itself": {"claims": {"sub": "7", "preferred_username": "carla"}},
    "the person": {"renews": False},
    "the person, for another": {"wrong": {"sub": "8"}},
    "the nonce, for another's": {"wrong": {"nonce": "another"}},
    "the signature": {"signs_with_other_key": True},
}


@pytest.mark.parametrize("change", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
def test_a_login_ends_soon_after_the_provider_takes_something_away(
    browser: Person, provider: IdentityProvider, clock: Clock, change: dict[str, Any]
) -> None:
    provider.gives_refresh_tokens = True
    browser.log_in()
    for name, value in change.items():
        setattr(provider, name, value)
    clock.ahead_s = RECHECK_S
    assert browser.get("/status").status_code == 200
    browser.vouching.look()
    assert browser.get("/status").status_code == 303


WRONG_CLAIMS: dict[str, dict[str, Any]] = {
    "another issuer": {"iss": "https://evil.example"},
    "another client": {"aud": "another"},
    "another client's as well": {"aud": [CLIENT_ID, "another"], "azp": "another"},
    "ended": {"exp": 1_000_000_000},
    "of the future": {"iat": 9_000_000_000},
    "another login's nonce": {"nonce": "another"},
    "no nonce": {"nonce": None},
    "no subject": {"sub": ""},
    "no name": {"preferred_username": None},
    "a name that is none": {"preferred_username": "a/b"},
    "a project that isn't there": {"groups": ["lost"]},
    "no group with a role": {"groups": ["strangers"]},
    "groups that are no list": {"groups": "keepers"},
    "groups that are an object": {"groups": {"keepers": True}},
    "a group that is no name": {"groups": ["keepers", 7]},
}


@pytest.mark.parametrize("wrong", WRONG_CLAIMS.values(), ids=WRONG_CLAIMS)
def test_an_id_token_that_does_not_count_lets_nobody_in(
    browser: Person, provider: IdentityProvider, sessions: Sessions, wrong: dict[str, Any]
) -> None:
    provider.wrong = wrong
    refused(browser, browser.log_in(), sessions)


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS512"])
def test_only_signatures_of_the_provider_count(
    browser: Person, provider: IdentityProvider, sessions: Sessions, algorithm: str
) -> None:
    provider.algorithm = algorithm
    refused(browser, browser.log_in(), sessions)


def test_a_signature_by_another_key_does_not_count(
    browser: Person, provider: IdentityProvider, sessions: Sessions
) -> None:
    provider.signs_with_other_key = True
    refused(browser, browser.log_in(), sessions)


def test_a_provider_that_names_another_issuer_is_not_asked(browser: Person, provider: IdentityProvider) -> None:
    provider.named_issuer = "https://evil.example"
    reply = browser.get("/login/provider")
    assert (reply.status_code, "expected the issuer" in reply.text) == (502, True)


def test_a_login_that_another_browser_began_is_not_finished(
    browser: Person, provider: IdentityProvider, sessions: Sessions
) -> None:
    """What an attacker does who wants a victim to work in the attacker's account."""
    back = browser.agree(browser.begin())
    browser.cookies.clear()
    refused(browser, browser.finish(back), sessions)
    browser.begin()
    refused(browser, browser.finish(back), sessions)


def test_a_code_counts_once(browser: Person, sessions: Sessions) -> None:
    url = browser.begin()
    attempt = browser.cookies[provider_login.ATTEMPT_COOKIE]
    back = browser.agree(url)
    assert browser.finish(back).status_code == 200
    browser.cookies.clear()
    browser.cookies.set(provider_login.ATTEMPT_COOKIE, attempt)
    assert browser.finish(back).status_code == 403


def test_a_person_who_said_no_is_told_so(browser: Person, sessions: Sessions) -> None:
    state = httpx.URL(browser.begin()).params["state"]
    reply = browser.get("/login/provider/callback", query={"state": state, "error": "access_<denied>"})
    assert (reply.status_code, "access_&lt;denied&gt;" in reply.text) == (403, True)


def test_a_provider_that_does_not_answer_is_named(
    provider: IdentityProvider, running: tuple[IdentityProvider, Path]
) -> None:
    settings = OidcSettings(issuer="https://127.0.0.1:9", client_id=CLIENT_ID, ca_file=str(running[1]), roles={})
    made = oidc.Provider(settings, redirect_uri=HOME, clock=time.time)
    with pytest.raises(ProviderDown, match=r"doesn't answer at https://127\.0\.0\.1:9"):
        made.begin(oidc.Attempt.of("secret"))


@pytest.mark.parametrize("library", ["authlib.integrations.httpx_client", "httpx2"])
def test_says_what_to_install_where_a_library_is_missing(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    settings = OidcSettings(issuer="https://login.example", client_id=CLIENT_ID, roles={})
    with pytest.raises(BadConfiguration, match=r"install shoal-fleet\[oidc\]"):
        oidc.Provider(settings, redirect_uri=HOME, clock=time.time)


@pytest.mark.parametrize("field", ["client_secret_file", "ca_file"])
def test_says_which_file_is_missing(field: str) -> None:
    named: dict[str, Any] = {field: "/not/there"}
    settings = OidcSettings(issuer="https://login.example", client_id=CLIENT_ID, roles={}, **named)
    with pytest.raises(BadConfiguration, match=f"{field} /not/there"):
        oidc.Provider(settings, redirect_uri=HOME, clock=time.time)


def refused(browser: Person, reply: httpx.Response, sessions: Sessions) -> None:
    """Nobody got in, nobody was made, and the form is there again."""
    assert reply.status_code == 403, reply.text
    assert COOKIE not in browser.cookies
    assert 'action="/login' in reply.text
    with sessions() as session:
        assert users.list_users(session) == []
