"""Which paths of the API show what devices can open that are shut out?"""

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.exposures import service
from shoal_fleet.exposures.service import Exposed


class ExposedView(BaseModel):
    """A file whose content key a device holds."""

    release: str
    version: int
    file: str
    plaintext_sha256: str
    ciphertext_sha256: str
    assigned_devices: int = Field(description="devices, not revoked, that are assigned this release")
    replaced_by: int | None = Field(description="later version with the same plaintext under another key")

    @classmethod
    def of(cls, exposed: Exposed) -> "ExposedView":
        """View of one."""
        return cls(**exposed._asdict())


class Exposures(BaseModel):
    """What one device, or all that are revoked, can open."""

    devices: list[str]
    """Ids."""
    is_revoked: bool
    """False: what would be exposed if this device were shut out now."""
    files: list[ExposedView]


class ExposureRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions) -> None:
        self._sessions = sessions

    def show_exposed(self, device: str) -> Exposures:
        """Files whose content keys a device was ever given."""
        with self._sessions() as session:
            found = devices.find_device(session, device)
            files = service.list_exposed(session, [found.id])
        return Exposures(
            devices=[found.id], is_revoked=found.revoked_at is not None, files=[ExposedView.of(file) for file in files]
        )

    def list_exposed(self) -> Exposures:
        """Files whose content keys any revoked device was ever given."""
        with self._sessions() as session:
            revoked = service.list_revoked(session)
            files = service.list_exposed(session, revoked)
        return Exposures(devices=list(revoked), is_revoked=True, files=[ExposedView.of(file) for file in files])


def make_router(*, sessions: Sessions, gate: Gate) -> APIRouter:
    """Routes of `/api/v1/exposed` and of a device's exposures."""
    routes = ExposureRoutes(sessions=sessions)
    router = APIRouter(prefix="/api/v1", tags=["exposures"], responses=ERRORS)
    viewer = [Depends(gate.viewer)]
    router.add_api_route("/exposed", routes.list_exposed, methods=["GET"], dependencies=viewer)
    router.add_api_route("/devices/{device}/exposed", routes.show_exposed, methods=["GET"], dependencies=viewer)
    return router
