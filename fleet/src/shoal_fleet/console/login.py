"""How does a person log in and out with a browser, and change their password? Without any script."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from shoal_fleet.access import known_browsers, login_sessions, users
from shoal_fleet.access.client_address import ClientAddresses
from shoal_fleet.access.csrf import check_origin
from shoal_fleet.access.gate import COOKIE, Asking, Gate, read_form, read_provenance
from shoal_fleet.access.login_sessions import Begun, LoginAttempt
from shoal_fleet.access.passwords import MIN_PASSWORD_CHARACTERS, Passwords
from shoal_fleet.api import ERRORS, LOGIN_PATH
from shoal_fleet.console.page import HEADERS, Visitor, document, element, field, form
from shoal_fleet.console.routes import Looking
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, FleetError, NotAllowed, Refused, TooSoon
from shoal_fleet.times import Clock

START_PATH = "/status"
"""Where a person is after the login who didn't ask for another page."""

Next = Annotated[str, Query(max_length=200)]

BROWSER_COOKIE = "__Host-shoal-known"
"""Cookie of a browser with which somebody has logged in before (`known_browsers.py`)."""

MAX_HELD_UP = 64
"""Attempts that are held up at a time: each has a connection and a little memory."""

Sleep = Callable[[float], Awaitable[None]]

_AT_PROVIDER = "Log in at your organisation's identity provider"

_LOCAL_PAGE = re.compile(r"/(?:[a-z][a-z0-9/-]*)?")


class LoginRoutes:
    """Handlers."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        clock: Clock,
        passwords: Passwords,
        has_provider: bool,
        addresses: ClientAddresses,
        sleep: Sleep,
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._passwords = passwords
        self._has_provider = has_provider
        self._addresses = addresses
        self._sleep = sleep
        self._held_up = 0

    def show_login(self, next: Next = START_PATH) -> HTMLResponse:
        """The form."""
        return login_page(wanted=next, has_provider=self._has_provider)

    async def log_in(self, request: Request, next: Next = START_PATH) -> Response:
        """Begin a session, whose secret goes into a cookie."""
        check_origin(await read_provenance(request))
        given = await read_form(request)
        attempt = self._read_attempt(request, given.get("name", ""), given.get("password", ""))
        try:
            begun = await self._try(attempt)
        except TooSoon as error:
            return login_page(
                wanted=next, fault=str(error), status=429, wait_s=error.wait_s, has_provider=self._has_provider
            )
        except NotAllowed as error:
            return login_page(wanted=next, fault=str(error), status=403, has_provider=self._has_provider)
        answer = RedirectResponse(local_page(next), status_code=303, headers=HEADERS)
        set_session_cookie(answer, begun.session)
        answer.set_cookie(
            BROWSER_COOKIE,
            begun.browser,
            max_age=int(known_browsers.KNOWN_S),
            path="/",
            secure=True,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        secret = request.cookies.get(COOKIE)
        if secret is not None:
            await run_in_threadpool(self._log_out, secret)
        answer = RedirectResponse(LOGIN_PATH, status_code=303, headers=HEADERS)
        answer.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")
        return answer

    def show_account(self, visitor: Looking) -> HTMLResponse:
        """Who is logged in, and the form for another password."""
        with self._sessions() as session:
            user = users.find_by_name(session, visitor.name) if visitor.csrf else None
        return _account_page(visitor, has_password=user is not None and user.subject is None)

    async def change_password(self, request: Request, caller: Asking, visitor: Looking) -> Response:
        """Give oneself another password. All sessions end, this one too."""
        kind, _, name = caller.actor.partition(":")
        if kind != "user":
            raise NotAllowed(f"{caller.actor}: expected a user with a password")
        given = await read_form(request)
        try:
            # The old one is asked for in the same way as at a login, and as slowly where it is wrong.
            await self._try(self._read_attempt(request, name, given.get("password", "")))
            await run_in_threadpool(self._set_password, name, given.get("new_password", ""))
        except (NotAllowed, TooSoon, Refused, Conflict) as error:
            return _account_page(visitor, has_password=True, fault=error)
        return RedirectResponse(LOGIN_PATH, status_code=303, headers=HEADERS)

    def _read_attempt(self, request: Request, name: str, password: str) -> LoginAttempt:
        browser = request.cookies.get(BROWSER_COOKIE, "")
        return LoginAttempt(name=name, password=password, address=self._addresses.of(request), browser=browser)

    async def _try(self, attempt: LoginAttempt) -> Begun:
        """Look at an attempt, after as long as it is to be held up. Meanwhile it holds no thread."""
        delay_s = await run_in_threadpool(self._count, attempt)
        if delay_s > 0:
            if self._held_up >= MAX_HELD_UP:
                raise TooSoon("login: too many at once; try again in a few seconds", wait_s=delay_s)
            self._held_up += 1
            try:
                await self._sleep(delay_s)
            finally:
                self._held_up -= 1
        return await run_in_threadpool(self._log_in, attempt)

    def _count(self, attempt: LoginAttempt) -> float:
        with self._sessions() as session:
            return login_sessions.count_attempt(session, attempt, now=self._clock())

    def _log_in(self, attempt: LoginAttempt) -> Begun:
        with self._sessions() as session:
            return login_sessions.log_in(session, attempt, passwords=self._passwords, now=self._clock())

    def _log_out(self, secret: str) -> None:
        with self._sessions() as session:
            login_sessions.log_out(session, secret)

    def _set_password(self, name: str, new_password: str) -> None:
        with self._sessions() as session:
            users.set_password(
                session, name, new_password, passwords=self._passwords, actor=f"user:{name}", now=self._clock()
            )


def set_session_cookie(answer: Response, secret: str) -> None:
    """Give the browser the cookie of a session."""
    answer.set_cookie(COOKIE, secret, path="/", secure=True, httponly=True, samesite="strict")


def make_router(
    *,
    sessions: Sessions,
    gate: Gate,
    clock: Clock,
    passwords: Passwords,
    has_provider: bool = False,
    addresses: ClientAddresses,
    sleep: Sleep = asyncio.sleep,
) -> APIRouter:
    """The pages `/login`, `/logout` and `/account`. `has_provider`: whether there is an identity provider, too."""
    routes = LoginRoutes(
        sessions=sessions,
        clock=clock,
        passwords=passwords,
        has_provider=has_provider,
        addresses=addresses,
        sleep=sleep,
    )
    router = APIRouter(include_in_schema=False, responses=ERRORS)
    page, viewer = [Depends(gate.page)], [Depends(gate.viewer)]
    router.add_api_route(LOGIN_PATH, routes.show_login, methods=["GET"], response_class=HTMLResponse)
    router.add_api_route(LOGIN_PATH, routes.log_in, methods=["POST"])
    router.add_api_route("/logout", routes.log_out, methods=["POST"], dependencies=viewer)
    router.add_api_route("/account", routes.show_account, methods=["GET"], dependencies=page)
    router.add_api_route("/account/password", routes.change_password, methods=["POST"], dependencies=viewer)
    return router


def login_page(
    *, wanted: str = START_PATH, fault: str = "", status: int = 200, wait_s: float = 0.0, has_provider: bool
) -> HTMLResponse:
    """The form, with a link to the identity provider where there is one."""
    inside = (
        field("Name", "name", kind="text", autocomplete="username")
        + field("Password", "password", kind="password", autocomplete="current-password")
        + "<button>Log in</button>"
    )
    main = (
        element("h2", "Log in")
        + (element("p", fault, css="fault") if fault else "")
        + form(f"{LOGIN_PATH}?next={local_page(wanted)}", inside, csrf="", css="card")
        + (f'<p><a href="/login/provider?next={local_page(wanted)}">{_AT_PROVIDER}</a></p>' if has_provider else "")
    )
    headers = HEADERS | ({"Retry-After": f"{wait_s:.0f}"} if wait_s else {})
    return HTMLResponse(document("Shoal: log in", main, is_live=False), status_code=status, headers=headers)


def _account_page(visitor: Visitor, *, has_password: bool, fault: FleetError | None = None) -> HTMLResponse:
    inside = (
        field("Present password", "password", kind="password", autocomplete="current-password")
        + field(
            f"New password, at least {MIN_PASSWORD_CHARACTERS} characters",
            "new_password",
            kind="password",
            autocomplete="new-password",
        )
        + "<button>Change the password</button>"
    )
    main = (
        element("h2", "Password")
        + (element("p", fault, css="fault") if fault else "")
        + form("/account/password", inside, csrf=visitor.csrf, css="card")
        + element("p", "You log in again afterwards, wherever you are logged in now.", css="soft")
    )
    if not has_password:
        main = element("p", f"{visitor.name} has no password here.", css="soft")
    page = document("Shoal: account", main, is_live=False, visitor=visitor)
    return HTMLResponse(page, status_code=200 if fault is None else 403, headers=HEADERS)


def local_page(wanted: str) -> str:
    """A page of this fleet: nobody is sent elsewhere by a link to the login."""
    return wanted if _LOCAL_PAGE.fullmatch(wanted) and "//" not in wanted else START_PATH
