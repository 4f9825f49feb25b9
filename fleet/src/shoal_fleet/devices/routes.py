"""Which paths of the API show devices and shut them out?"""

from collections.abc import Callable

from fastapi import APIRouter, Depends

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service
from shoal_fleet.devices.views import DeviceDetail, DeviceView
from shoal_fleet.telemetry import queries
from shoal_fleet.times import Clock


class DeviceRoutes:
    """Handlers. `publish_revocations` makes a revocation count, and returns when it does."""

    def __init__(self, *, sessions: Sessions, clock: Clock, publish_revocations: Callable[[], None]) -> None:
        self._sessions = sessions
        self._clock = clock
        self._publish_revocations = publish_revocations

    def list_devices(self) -> list[DeviceView]:
        """All devices, revoked ones last."""
        with self._sessions() as session:
            return [DeviceView.of(device) for device in service.list_devices(session)]

    def show_device(self, device: str) -> DeviceDetail:
        """One device, by its id or its name."""
        with self._sessions() as session:
            found = service.find_device(session, device)
            deaths = queries.count_deaths(session, now=self._clock())
            return DeviceDetail.of(found, worker_deaths=deaths.get(found.id, 0))

    def revoke_device(self, device: str) -> DeviceView:
        """Shut a device out for good: its certificate, and its open connection to the broker."""
        with self._sessions() as session:
            revoked = service.revoke(session, device, now=self._clock())
        self._publish_revocations()
        return DeviceView.of(revoked)


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock, publish_revocations: Callable[[], None]) -> APIRouter:
    """Routes of `/api/v1/devices`."""
    routes = DeviceRoutes(sessions=sessions, clock=clock, publish_revocations=publish_revocations)
    router = APIRouter(prefix="/api/v1/devices", tags=["devices"], responses=ERRORS)
    reader, admin = [Depends(gate.reader)], [Depends(gate.admin)]
    router.add_api_route("", routes.list_devices, methods=["GET"], dependencies=reader)
    router.add_api_route("/{device}", routes.show_device, methods=["GET"], dependencies=reader)
    router.add_api_route("/{device}/revoke", routes.revoke_device, methods=["POST"], dependencies=admin)
    return router
