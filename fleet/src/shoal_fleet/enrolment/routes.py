"""Which paths make enrolment tokens, and take a board in that has one?"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from shoal_wire import paths

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS, read_body
from shoal_fleet.database import Sessions
from shoal_fleet.enrolment import service
from shoal_fleet.enrolment.rules import MAX_REQUEST_BYTES, read_request
from shoal_fleet.enrolment.service import Addresses
from shoal_fleet.errors import NotAllowed
from shoal_fleet.pki.authority import Authority
from shoal_fleet.times import Clock

LONGEST_TTL_S = 30 * 86400

_Secret = Annotated[
    HTTPAuthorizationCredentials | None, Depends(HTTPBearer(scheme_name="EnrolmentToken", auto_error=False))
]


class NewToken(BaseModel):
    """For which device, and for how long, a token is good."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,99}$")]
    ttl_s: Annotated[int, Field(ge=1, le=LONGEST_TTL_S)] = 3600


class TokenView(BaseModel):
    """A token, which can be read this once."""

    token: str
    expires_at: float


class EnrolmentRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, clock: Clock, authority: Authority, addresses: Addresses) -> None:
        self._sessions = sessions
        self._clock = clock
        self._authority = authority
        self._addresses = addresses

    def create_token(self, body: NewToken) -> TokenView:
        """Make an enrolment token for one new device."""
        with self._sessions() as session:
            token, expires_at = service.create_token(
                session,
                name=body.name,
                ttl_s=body.ttl_s,
                addresses=self._addresses,
                authority=self._authority,
                now=self._clock(),
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
        """Certificate of the fleet's authority. Compare its digest with that in the token before trusting it."""
        return Response(self._authority.certificate_pem, media_type="application/x-pem-file")

    def _check_secret(self, secret: str) -> None:
        with self._sessions() as session:
            service.check_secret(session, secret, now=self._clock())

    def _enrol(self, secret: str, raw: bytes) -> bytes:
        with self._sessions() as session:
            return service.enrol(
                session,
                secret=secret,
                claim=read_request(raw),
                addresses=self._addresses,
                authority=self._authority,
                now=self._clock(),
            )


def make_router(
    *, sessions: Sessions, gate: Gate, clock: Clock, authority: Authority, addresses: Addresses
) -> APIRouter:
    """Routes of `/api/v1/enrolment-tokens`, and the two that a new board asks for."""
    routes = EnrolmentRoutes(sessions=sessions, clock=clock, authority=authority, addresses=addresses)
    router = APIRouter(tags=["enrolment"], responses=ERRORS)
    router.add_api_route(
        "/api/v1/enrolment-tokens",
        routes.create_token,
        methods=["POST"],
        status_code=201,
        dependencies=[Depends(gate.admin)],
    )
    router.add_api_route(paths.ENROL, routes.enrol, methods=["POST"])
    router.add_api_route(paths.AUTHORITY, routes.read_authority, methods=["GET"])
    return router
