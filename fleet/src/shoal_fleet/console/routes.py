"""Which pages are there for people?"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from sqlalchemy.orm import Session

from shoal_fleet.access.csrf import csrf_word
from shoal_fleet.access.gate import COOKIE, Asking, Caller, Gate
from shoal_fleet.access.roles import Role, reach
from shoal_fleet.api import ERRORS
from shoal_fleet.console.page import HEADERS, Visitor
from shoal_fleet.console.reference_page import render_reference
from shoal_fleet.console.status import read_status
from shoal_fleet.console.status_page import approve_path, render_status
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, FleetError, NotFound, Refused, WrongRole
from shoal_fleet.rollouts.approvals import Approver
from shoal_fleet.rollouts.routes import RolloutId
from shoal_fleet.times import Clock

STATUS_PATH = "/status"

Approve = Callable[[Session, int, Caller], object]
"""Notes the caller's approval of a rollout."""


async def read_visitor(request: Request, caller: Asking) -> Visitor:
    """The caller, with the word for forms where they are logged in."""
    secret = request.cookies.get(COOKIE)
    kind, _, name = caller.actor.partition(":")
    return Visitor(name, csrf_word(secret) if secret is not None and kind == "user" else "")


Looking = Annotated[Visitor, Depends(read_visitor)]
"""Type of a handler's argument that is to be the visitor."""


class ConsoleRoutes:
    """Handlers. `describe` gives the OpenAPI document of the whole application."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        clock: Clock,
        describe: Callable[[], dict[str, Any]],
        find_trouble: Callable[[], Sequence[str]],
        approve: Approve,
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._describe = describe
        self._find_trouble = find_trouble
        self._approve = approve

    def show_status(self, caller: Asking, visitor: Looking) -> HTMLResponse:
        """Devices and rollouts as they are now."""
        return self._show(caller, visitor)

    def approve_rollout(self, rollout: RolloutId, caller: Asking, visitor: Looking) -> Response:
        """Approve a rollout that somebody else started, and see what became of it."""
        try:
            with self._sessions() as session:
                self._approve(session, rollout, caller)
        except (Conflict, NotFound, Refused, WrongRole) as error:
            return self._show(caller, visitor, fault=error)
        return RedirectResponse(STATUS_PATH, status_code=303, headers=HEADERS)

    def _show(self, caller: Caller, visitor: Visitor, *, fault: FleetError | None = None) -> HTMLResponse:
        viewer = Approver(caller.person, reach(caller.held, Role.OPERATOR))
        with self._sessions() as session:
            status = read_status(session, now=self._clock(), viewer=viewer, warnings=self._find_trouble())
        page = render_status(status, visitor=visitor, fault=fault)
        return HTMLResponse(page, status_code=200 if fault is None else 409, headers=HEADERS)

    def show_reference(self, visitor: Looking) -> HTMLResponse:
        """Every path of the API."""
        return HTMLResponse(render_reference(self._describe(), visitor=visitor), headers=HEADERS)


def make_router(
    *,
    sessions: Sessions,
    gate: Gate,
    clock: Clock,
    describe: Callable[[], dict[str, Any]],
    approve: Approve,
    find_trouble: Callable[[], Sequence[str]] = tuple,
) -> APIRouter:
    """The pages `/`, `/status` and `/docs`; they are no part of the API, so they stand in no list of it.

    `approve` notes an approval of a rollout, `find_trouble` says what somebody should look after.
    """
    routes = ConsoleRoutes(
        sessions=sessions, clock=clock, describe=describe, find_trouble=find_trouble, approve=approve
    )
    router = APIRouter(include_in_schema=False, responses=ERRORS)
    page, operator = [Depends(gate.page)], [Depends(gate.operator)]
    for path in ("/", STATUS_PATH):
        router.add_api_route(path, routes.show_status, methods=["GET"], response_class=HTMLResponse, dependencies=page)
    router.add_api_route(
        "/docs", routes.show_reference, methods=["GET"], response_class=HTMLResponse, dependencies=page
    )
    router.add_api_route(approve_path("{rollout}"), routes.approve_rollout, methods=["POST"], dependencies=operator)
    return router
