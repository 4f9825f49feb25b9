"""Which paths make enrolment tokens, and take a board in that has one?"""

import asyncio
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from shoal_wire import paths

from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.access.roles import choose_project
from shoal_fleet.access.views import ProjectName
from shoal_fleet.api import ERRORS, read_body
from shoal_fleet.database import Sessions
from shoal_fleet.devices.service import find_device
from shoal_fleet.enrolment import service
from shoal_fleet.enrolment.rules import MAX_REQUEST_BYTES, read_request
from shoal_fleet.enrolment.service import Terms
from shoal_fleet.errors import NotAllowed
from shoal_fleet.labels.routes import Labels
from shoal_fleet.times import Clock

LONGEST_TTL_S = 30 * 86400

_Secret = Annotated[
    HTTPAuthorizationCredentials | None, Depends(HTTPBearer(scheme_name="EnrolmentToken", auto_error=False))
]


class NewToken(BaseModel):
    """For which device, and for how long, a token is good."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$")]
    project: ProjectName | None = None
    """That the device will be in; null where the caller has but one."""
    ttl_s: Annotated[int, Field(ge=1, le=LONGEST_TTL_S)] = 3600
    labels: Labels = {}
    """That the device will have."""


class Replacement(BaseModel):
    """For how long the token of a replacement is good."""

    ttl_s: Annotated[int, Field(ge=1, le=LONGEST_TTL_S)] = 86400


class TokenView(BaseModel):
    """A token, which can be read this once."""

    token: str
    expires_at: float


class EnrolmentRoutes:
    """Handlers."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        reached: Sessions,
        clock: Clock,
        terms: Terms,
        note_replaced: Callable[[str], None],
    ) -> None:
        """`reached` are sessions that end at the caller's reach. `note_replaced`
        is told the id of a device that was shut out for another."""
        self._sessions = sessions
        self._reached = reached
        self._clock = clock
        self._terms = terms
        self._note_replaced = note_replaced

    def create_token(self, body: NewToken, caller: Asking) -> TokenView:
        """Make an enrolment token for one new device."""
        project = choose_project(body.project, caller.reach)
        with self._sessions() as session:
            token, expires_at = service.create_token(
                session,
                name=body.name,
                project=project,
                ttl_s=body.ttl_s,
                addresses=self._terms.addresses,
                authority=self._terms.authority,
                now=self._clock(),
                labels=body.labels,
            )
        return TokenView(token=token, expires_at=expires_at)

    def create_replacement_token(self, device: str, body: Replacement) -> TokenView:
        """Make an enrolment token for a board that takes a device's place: its name, project and assignments.

        The old one is shut out when the new one enrols.
        """
        with self._reached() as session:
            old = find_device(session, device)
        with self._sessions() as session:
            token, expires_at = service.create_token(
                session,
                name=old.name,
                project=old.project,
                ttl_s=body.ttl_s,
                addresses=self._terms.addresses,
                authority=self._terms.authority,
                now=self._clock(),
                replaces=old.id,
            )
        return TokenView(token=token, expires_at=expires_at)

    async def enrol(self, request: Request, bearer: _Secret) -> Response:
        """Take a board in. The body is a signed enrolment request, the bearer is the secret of its token."""
        if bearer is None:
            raise NotAllowed("no enrolment token: expected its secret as bearer")
        await asyncio.to_thread(self._check_secret, bearer.credentials)
        raw = await read_body(request, limit_bytes=MAX_REQUEST_BYTES * 2, what="enrolment request")
        answer = await asyncio.to_thread(self._enrol, bearer.credentials, raw)
        return Response(answer, media_type="application/json")

    def read_authority(self) -> Response:
        """Certificate of the fleet's authority. Compare its digest with that in the token before trusting it.

        Those that it follows come after it, for tokens that name one of them.
        """
        authority = self._terms.authority
        return Response("".join(reversed(authority.trusted)), media_type="application/x-pem-file")

    def _check_secret(self, secret: str) -> None:
        with self._sessions() as session:
            service.check_secret(session, secret, now=self._clock())

    def _enrol(self, secret: str, raw: bytes) -> bytes:
        with self._sessions() as session:
            enrolled = service.enrol(
                session, secret=secret, claim=read_request(raw), terms=self._terms, now=self._clock()
            )
        if enrolled.replaced is not None:
            self._note_replaced(enrolled.replaced)
        return enrolled.answer


def make_router(
    *, sessions: Sessions, gate: Gate, clock: Clock, terms: Terms, note_replaced: Callable[[str], None]
) -> APIRouter:
    """Routes of `/api/v1/enrolment-tokens`, that of replacements, and the two that a new board asks for."""
    routes = EnrolmentRoutes(
        sessions=sessions, reached=gate.sessions, clock=clock, terms=terms, note_replaced=note_replaced
    )
    router = APIRouter(tags=["enrolment"], responses=ERRORS)
    router.add_api_route(
        "/api/v1/enrolment-tokens",
        routes.create_token,
        methods=["POST"],
        status_code=201,
        dependencies=[Depends(gate.operator)],
    )
    router.add_api_route(
        "/api/v1/devices/{device}/replacement",
        routes.create_replacement_token,
        methods=["POST"],
        status_code=201,
        dependencies=[Depends(gate.operator)],
    )
    router.add_api_route(paths.ENROL, routes.enrol, methods=["POST"])
    router.add_api_route(paths.AUTHORITY, routes.read_authority, methods=["GET"])
    return router
