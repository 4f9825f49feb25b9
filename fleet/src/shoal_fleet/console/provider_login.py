"""How does a person log in whom an identity provider vouches for?"""

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import Annotated, Protocol, TypeVar

from fastapi import APIRouter, Cookie, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from shoal_fleet.access import throttle
from shoal_fleet.access.client_address import ClientAddresses
from shoal_fleet.access.oidc import Attempt, Vouched
from shoal_fleet.access.vouching import Vouching
from shoal_fleet.api import ERRORS
from shoal_fleet.console.login import START_PATH, Next, local_page, login_page, set_session_cookie
from shoal_fleet.console.page import HEADERS, document, element, escape
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import Conflict, NotAllowed, NotFound, ProviderDown, Refused, TooSoon
from shoal_fleet.times import Clock

PROVIDER_PATH = "/login/provider"
CALLBACK_PATH = "/login/provider/callback"
"""Where the provider sends the browser back to; to be registered there."""

ATTEMPT_COOKIE = "__Host-shoal-login"
ATTEMPT_S = 600
"""How long a login at the provider may take."""

TALKS = 4
"""How many threads talk with the provider at a time: it may take long, and others want to be served."""
PATIENCE_S = 20.0
"""How long a login waits for its turn."""

Answer = TypeVar("Answer")
Word = Annotated[str, Query(max_length=4096)]


class LoginProvider(Protocol):
    """What logins ask of the provider: see `oidc.Provider`."""

    def begin(self, attempt: Attempt) -> str:
        """Where to send the browser."""

    def finish(self, code: str, attempt: Attempt) -> Vouched:
        """The provider's word for a code."""


class ProviderRoutes:
    """Handlers."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        clock: Clock,
        provider: LoginProvider,
        vouching: Vouching,
        addresses: ClientAddresses,
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._provider = provider
        self._vouching = vouching
        self._addresses = addresses
        self._turns = asyncio.Semaphore(TALKS)

    async def begin(self, request: Request, next: Next = START_PATH) -> Response:
        """Send the browser to the provider."""
        secret = secrets.token_urlsafe(32)
        try:
            await run_in_threadpool(self._count, self._addresses.of(request))
            url = await self._talk(lambda: self._provider.begin(Attempt.of(secret)))
        except TooSoon as error:
            return _too_soon(error, wanted=next)
        except NotAllowed as error:
            return login_page(wanted=next, fault=str(error), status=502, has_provider=True)
        answer = RedirectResponse(url, status_code=303, headers=HEADERS)
        # Lax, as the provider's page sends the browser back; it is worth nothing but for this one login.
        answer.set_cookie(
            ATTEMPT_COOKIE,
            f"{secret}:{local_page(next)}",
            max_age=ATTEMPT_S,
            path="/",
            secure=True,
            httponly=True,
            samesite="lax",
        )
        return answer

    async def finish(
        self,
        request: Request,
        attempt: Annotated[str, Cookie(alias=ATTEMPT_COOKIE, max_length=400)] = "",
        state: Word = "",
        code: Word = "",
        error: Word = "",
    ) -> Response:
        """Take the browser back from the provider, and begin a session."""
        secret, _, wanted = attempt.partition(":")
        expected = Attempt.of(secret)
        if not secret or not hmac.compare_digest(state.encode(), expected.state.encode()):
            return login_page(
                fault="login: it was begun elsewhere or too long ago; try again", status=403, has_provider=True
            )
        if error or not code:
            return login_page(fault=f"login: the provider says {error or 'nothing'}", status=403, has_provider=True)
        address = self._addresses.of(request)
        try:
            await run_in_threadpool(self._count, address)
            vouched = await self._talk(lambda: self._provider.finish(code, expected))
            session_secret = await run_in_threadpool(self._log_in, vouched, address)
        except TooSoon as soon:
            return _too_soon(soon, wanted=wanted)
        except ProviderDown as silence:
            return login_page(fault=str(silence), status=502, has_provider=True)
        except (NotAllowed, Conflict, NotFound, Refused) as refusal:
            return login_page(fault=str(refusal), status=403, has_provider=True)
        return _go_on(session_secret, wanted=local_page(wanted))

    async def _talk(self, ask: Callable[[], Answer]) -> Answer:
        """Ask the provider, in a thread that is had only when it is this login's turn."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._turns.acquire()
        except TimeoutError:
            raise TooSoon("login: too many at once; try again in a few seconds", wait_s=PATIENCE_S) from None
        try:
            return await run_in_threadpool(ask)
        finally:
            self._turns.release()

    def _count(self, address: str) -> None:
        with self._sessions() as session, writing(session):
            throttle.count_visit(session, address, now=self._clock())

    def _log_in(self, vouched: Vouched, address: str) -> str:
        secret = self._vouching.begin(vouched)
        with self._sessions() as session, writing(session):
            throttle.forgive_visit(session, address)
        return secret


def make_router(
    *, sessions: Sessions, clock: Clock, provider: LoginProvider, vouching: Vouching, addresses: ClientAddresses
) -> APIRouter:
    """The pages below `/login/provider`. `vouching` begins the sessions of those whom the provider vouches for."""
    routes = ProviderRoutes(sessions=sessions, clock=clock, provider=provider, vouching=vouching, addresses=addresses)
    router = APIRouter(include_in_schema=False, responses=ERRORS)
    router.add_api_route(PROVIDER_PATH, routes.begin, methods=["GET"])
    router.add_api_route(CALLBACK_PATH, routes.finish, methods=["GET"])
    return router


def _too_soon(error: TooSoon, *, wanted: str) -> HTMLResponse:
    return login_page(wanted=wanted, fault=str(error), status=429, wait_s=error.wait_s, has_provider=True)


def _go_on(secret: str, *, wanted: str) -> Response:
    """By a page instead of a redirect: one that began at the provider's would come without the strict cookie."""
    refresh = f'<meta http-equiv="refresh" content="0; url={escape(wanted)}">'
    main = refresh + element("p", "You are logged in.") + f'<p><a href="{escape(wanted)}">Go on</a></p>'
    answer = HTMLResponse(document("Shoal: logged in", main, is_live=False), headers=HEADERS)
    set_session_cookie(answer, secret)
    answer.delete_cookie(ATTEMPT_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer
