"""How does a person log in whom an identity provider vouches for?"""

import hmac
import secrets
from typing import Annotated

from fastapi import APIRouter, Cookie, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from shoal_fleet.access import login_sessions, users
from shoal_fleet.access.oidc import Attempt, Provider
from shoal_fleet.api import ERRORS
from shoal_fleet.console.login import START_PATH, Next, local_page, login_page, set_session_cookie
from shoal_fleet.console.page import HEADERS, document, element, escape
from shoal_fleet.database import Sessions, writing
from shoal_fleet.errors import Conflict, NotAllowed, NotFound, Refused
from shoal_fleet.times import Clock

PROVIDER_PATH = "/login/provider"
CALLBACK_PATH = "/login/provider/callback"
"""Where the provider sends the browser back to; to be registered there."""

ATTEMPT_COOKIE = "__Host-shoal-login"
ATTEMPT_S = 600
"""How long a login at the provider may take."""

Word = Annotated[str, Query(max_length=4096)]


class ProviderRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, clock: Clock, provider: Provider) -> None:
        self._sessions = sessions
        self._clock = clock
        self._provider = provider

    def begin(self, next: Next = START_PATH) -> Response:
        """Send the browser to the provider."""
        secret = secrets.token_urlsafe(32)
        try:
            url = self._provider.begin(Attempt.of(secret))
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

    def finish(
        self,
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
        try:
            session_secret = self._log_in(code, expected)
        except (NotAllowed, Conflict, NotFound, Refused) as refusal:
            return login_page(fault=str(refusal), status=403, has_provider=True)
        return _go_on(session_secret, wanted=local_page(wanted))

    def _log_in(self, code: str, attempt: Attempt) -> str:
        person = self._provider.finish(code, attempt)
        now = self._clock()
        with self._sessions() as session, writing(session):
            user = users.take_from_provider(
                session, subject=person.subject, name=person.name, held=person.held, now=now
            )
            return login_sessions.begin(session, user, how="provider", now=now)


def make_router(*, sessions: Sessions, clock: Clock, provider: Provider) -> APIRouter:
    """The pages below `/login/provider`."""
    routes = ProviderRoutes(sessions=sessions, clock=clock, provider=provider)
    router = APIRouter(include_in_schema=False, responses=ERRORS)
    router.add_api_route(PROVIDER_PATH, routes.begin, methods=["GET"])
    router.add_api_route(CALLBACK_PATH, routes.finish, methods=["GET"])
    return router


def _go_on(secret: str, *, wanted: str) -> Response:
    """By a page instead of a redirect: one that began at the provider's would come without the strict cookie."""
    refresh = f'<meta http-equiv="refresh" content="0; url={escape(wanted)}">'
    main = refresh + element("p", "You are logged in.") + f'<p><a href="{escape(wanted)}">Go on</a></p>'
    answer = HTMLResponse(document("Shoal: logged in", main, is_live=False), headers=HEADERS)
    set_session_cookie(answer, secret)
    answer.delete_cookie(ATTEMPT_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return answer
