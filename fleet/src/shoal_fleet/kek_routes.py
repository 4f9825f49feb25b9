"""What does the API say of the key-encryption key?"""

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from shoal_fleet import kek_rotation
from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.state import StatePaths


class KekShown(BaseModel):
    """Under what the fleet's secrets are."""

    kek: str = Field(description="URI; it holds no secret")
    since: float
    is_beside_database: bool
    warning: str = Field(description="empty where there is nothing to warn of")


class KekRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, paths: StatePaths) -> None:
        self._sessions = sessions
        self._paths = paths

    def show_kek(self) -> KekShown:
        """Which key-encryption key the fleet's secrets are wrapped under."""
        with self._sessions() as session:
            view = kek_rotation.show(session, self._paths)
        warning = ""
        if view.is_beside_database:
            warning = "lies beside the database: who copies both has every key; `shoal-fleet kek rotate --to URI`"
        return KekShown(kek=view.kek, since=view.since, is_beside_database=view.is_beside_database, warning=warning)


def make_router(*, sessions: Sessions, gate: Gate, paths: StatePaths) -> APIRouter:
    """The route of `/api/v1/kek`."""
    routes = KekRoutes(sessions=sessions, paths=paths)
    router = APIRouter(prefix="/api/v1", tags=["about"], responses=ERRORS)
    router.add_api_route("/kek", routes.show_kek, methods=["GET"], dependencies=[Depends(gate.fleet_admin)])
    return router
