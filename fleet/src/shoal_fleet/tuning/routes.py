"""Which paths of the API show verdicts of tuning, and what is known from them?"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from shoal_wire.tuning import Objective

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.releases import service as releases
from shoal_fleet.tuning import service
from shoal_fleet.tuning.views import KnownView, VerdictView

Fingerprint = Annotated[str, Query(pattern=r"^[0-9a-f]{64}$", description="of a kind of board, as a device shows it")]
Name = Annotated[str, Query(max_length=63)]
Version = Annotated[int, Query(ge=1, lt=2**31)]
Device = Annotated[str | None, Query(max_length=200, description="id or name")]
AfterId = Annotated[int, Query(ge=0, lt=2**63, description="the last id that was read")]
Limit = Annotated[int, Query(ge=1, le=1000)]


class TuningRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions) -> None:
        self._sessions = sessions

    def list_verdicts(
        self,
        model: Name | None = None,
        fingerprint: Fingerprint | None = None,
        device: Device = None,
        after_id: AfterId = 0,
        limit: Limit = 100,
    ) -> list[VerdictView]:
        """Verdicts that no newer one of the same device has replaced, in the order in which they were stored."""
        with self._sessions() as session:
            rows = service.list_standing(
                session,
                model=model,
                fingerprint=fingerprint,
                device_id=None if device is None else devices.find_device(session, device).id,
                after_id=after_id,
                limit=limit,
            )
            return [VerdictView.of(row) for row in rows]

    def show_known(
        self,
        release: Name,
        version: Version,
        fingerprint: Fingerprint,
        objective: Objective = service.DEFAULT_OBJECTIVE,
    ) -> list[KnownView]:
        """What is known of a release's models on one kind of board. An assignment has that for latency."""
        with self._sessions() as session:
            manifest = releases.read_manifest(session, releases.find_release(session, name=release, version=version))
            known = service.KnownChoices(session, manifest, objective=objective)
            return [KnownView.of(one) for one in known.of(fingerprint)]


def make_router(*, sessions: Sessions, gate: Gate) -> APIRouter:
    """Routes of `/api/v1/tuning`."""
    routes = TuningRoutes(sessions=sessions)
    router = APIRouter(prefix="/api/v1/tuning", tags=["tuning"], responses=ERRORS, dependencies=[Depends(gate.viewer)])
    router.add_api_route("", routes.list_verdicts, methods=["GET"])
    router.add_api_route("/known", routes.show_known, methods=["GET"])
    return router
