"""What does the fleet say of itself?"""

from collections.abc import Callable, Sequence
from typing import Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from sqlalchemy import select

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.keys import FleetKeys


class Health(BaseModel):
    """That the server answers and reaches its database: `ok`, or `degraded` where somebody should look at warnings."""

    status: str


class Warnings(BaseModel):
    """What somebody should look after, in words."""

    warnings: list[str]


class FleetKeysView(BaseModel):
    """Public halves of the fleet's online keys, in base64: Ed25519 as SubjectPublicKeyInfo, the others raw."""

    snapshot: str
    timestamp: str
    assignment: str
    hpke: str
    hybrid: str


class AboutRoutes:
    """Handlers. `describe` gives the OpenAPI document of the whole application."""

    def __init__(
        self,
        *,
        sessions: Sessions,
        public_keys: Callable[[], FleetKeys],
        describe: Callable[[], dict[str, Any]],
        find_trouble: Callable[[], Sequence[str]],
    ) -> None:
        self._sessions = sessions
        self._find_trouble = find_trouble
        self._public_keys = public_keys
        self._describe = describe

    def show_health(self) -> Health:
        """Whether the server answers and reaches its database. Needs no token."""
        with self._sessions() as session:
            session.execute(select(1))
        return Health(status="degraded" if self._find_trouble() else "ok")

    def list_warnings(self) -> Warnings:
        """What somebody should look after before it does harm."""
        return Warnings(warnings=list(self._find_trouble()))

    def show_fleet_keys(self) -> FleetKeysView:
        """Public keys of the fleet, which a publisher names in the root metadata and seals content keys to."""
        return FleetKeysView.model_validate(self._public_keys(), from_attributes=True)

    def show_openapi(self) -> dict[str, Any]:
        """This API as an OpenAPI document."""
        return self._describe()


def make_router(
    *,
    sessions: Sessions,
    gate: Gate,
    public_keys: Callable[[], FleetKeys],
    describe: Callable[[], dict[str, Any]],
    find_trouble: Callable[[], Sequence[str]] = tuple,
) -> APIRouter:
    """Routes of `/api/v1` that belong to no feature."""
    routes = AboutRoutes(sessions=sessions, public_keys=public_keys, describe=describe, find_trouble=find_trouble)
    router = APIRouter(prefix="/api/v1", tags=["about"], responses=ERRORS)
    router.add_api_route("/health", routes.show_health, methods=["GET"])
    for path, handler in (
        ("/fleet-keys", routes.show_fleet_keys),
        ("/warnings", routes.list_warnings),
        ("/openapi.json", routes.show_openapi),
    ):
        router.add_api_route(path, handler, methods=["GET"], dependencies=[Depends(gate.viewer)])
    return router
