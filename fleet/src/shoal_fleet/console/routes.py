"""Which pages are there for people?"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from shoal_fleet.access.csrf import csrf_word
from shoal_fleet.access.gate import COOKIE, Asking, Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.console.page import HEADERS, Visitor
from shoal_fleet.console.reference_page import render_reference
from shoal_fleet.console.status import read_status
from shoal_fleet.console.status_page import render_status
from shoal_fleet.database import Sessions
from shoal_fleet.times import Clock


async def read_visitor(request: Request, caller: Asking) -> Visitor:
    """The caller, with the word for forms where they are logged in."""
    secret = request.cookies.get(COOKIE)
    kind, _, name = caller.actor.partition(":")
    return Visitor(name, csrf_word(secret) if secret is not None and kind == "user" else "")


Looking = Annotated[Visitor, Depends(read_visitor)]
"""Type of a handler's argument that is to be the visitor."""


class ConsoleRoutes:
    """Handlers. `describe` gives the OpenAPI document of the whole application."""

    def __init__(self, *, sessions: Sessions, clock: Clock, describe: Callable[[], dict[str, Any]]) -> None:
        self._sessions = sessions
        self._clock = clock
        self._describe = describe

    def show_status(self, visitor: Looking) -> HTMLResponse:
        """Devices and rollouts as they are now."""
        with self._sessions() as session:
            page = render_status(read_status(session, now=self._clock()), visitor=visitor)
        return HTMLResponse(page, headers=HEADERS)

    def show_reference(self, visitor: Looking) -> HTMLResponse:
        """Every path of the API."""
        return HTMLResponse(render_reference(self._describe(), visitor=visitor), headers=HEADERS)


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock, describe: Callable[[], dict[str, Any]]) -> APIRouter:
    """The pages `/`, `/status` and `/docs`; they are no part of the API, so they stand in no list of it."""
    routes = ConsoleRoutes(sessions=sessions, clock=clock, describe=describe)
    router = APIRouter(include_in_schema=False, responses=ERRORS, dependencies=[Depends(gate.page)])
    for path in ("/", "/status"):
        router.add_api_route(path, routes.show_status, methods=["GET"], response_class=HTMLResponse)
    router.add_api_route("/docs", routes.show_reference, methods=["GET"], response_class=HTMLResponse)
    return router
