"""Which paths does a device ask for its next certificate? The same on both listeners."""

import asyncio
from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from shoal_wire import paths
from shoal_wire.encoding import encode
from shoal_wire.messages import RenewalChallenge

from shoal_fleet.api import ERRORS, read_body
from shoal_fleet.database import Sessions
from shoal_fleet.errors import TooSoon
from shoal_fleet.renewal import service
from shoal_fleet.renewal.challenges import Challenges
from shoal_fleet.renewal.limits import Limiter, Rate
from shoal_fleet.renewal.service import MAX_REQUEST_BYTES, Terms
from shoal_fleet.times import Clock

ADDRESS_RATE = Rate(burst=240, every_s=0.25)
"""Of questions from one address, behind which may be many boards: two for each certificate."""
DEVICE_RATE = Rate(burst=4, every_s=900.0)
"""Of certificates for one device, which needs one in weeks."""


class RenewalRoutes:
    """Handlers. `publish_revocations` makes what was revoked count."""

    def __init__(
        self, *, sessions: Sessions, clock: Clock, terms: Terms, publish_revocations: Callable[[], None]
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._terms = terms
        self._publish_revocations = publish_revocations
        self._challenges = Challenges()
        self._by_address = Limiter(ADDRESS_RATE)
        self._by_device = Limiter(DEVICE_RATE)

    def make_challenge(self, request: Request) -> Response:
        """A nonce that a device signs to show that it is there now."""
        self._count(self._by_address, request.client.host if request.client else "", what="renewal")
        challenge = RenewalChallenge(nonce=self._challenges.make(now=self._clock()))
        return Response(encode(challenge), media_type="application/json")

    async def renew(self, request: Request) -> Response:
        """Give a device its next certificate. The body is a request to renew, signed by the device's identity key."""
        self._count(self._by_address, request.client.host if request.client else "", what="renewal")
        raw = await read_body(request, limit_bytes=MAX_REQUEST_BYTES * 2, what="request to renew")
        return Response(await asyncio.to_thread(self._renew, raw), media_type="application/json")

    def _renew(self, raw: bytes) -> bytes:
        now = self._clock()
        with self._sessions() as session:
            proven = service.read_request(session, raw)
        self._challenges.spend(proven.request.nonce, now=now)
        self._count(self._by_device, proven.device_id, what=f"device {proven.device_id}: renewal")
        with self._sessions() as session:
            renewed = service.renew(session, proven, terms=self._terms, now=now)
        if renewed.has_revoked:
            self._publish_revocations()
        return renewed.answer

    def _count(self, limiter: Limiter, key: str, *, what: str) -> None:
        wait_s = limiter.wait_s(key, now=self._clock())
        if wait_s:
            raise TooSoon(f"{what}: too often; ask again in {wait_s:.0f} s", wait_s=wait_s)


def make_router(
    *, sessions: Sessions, clock: Clock, terms: Terms, publish_revocations: Callable[[], None]
) -> APIRouter:
    """The two paths of renewal. They need no token: the request is signed by the device."""
    routes = RenewalRoutes(sessions=sessions, clock=clock, terms=terms, publish_revocations=publish_revocations)
    router = APIRouter(tags=["renewal"], responses=ERRORS)
    router.add_api_route(paths.RENEWAL_CHALLENGE, routes.make_challenge, methods=["GET"])
    router.add_api_route(paths.RENEWAL, routes.renew, methods=["POST"])
    return router
