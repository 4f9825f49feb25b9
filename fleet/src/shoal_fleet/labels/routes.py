"""Which paths of the API label devices?"""

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field, StringConstraints

from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.labels.service import KEY, MAX_LABELS, MAX_VALUE, change_labels
from shoal_fleet.times import Clock

Key = Annotated[str, StringConstraints(pattern=KEY)]
Value = Annotated[str, StringConstraints(max_length=MAX_VALUE)]
Labels = Annotated[dict[Key, Value], Field(max_length=MAX_LABELS)]


class LabelChanges(BaseModel):
    """Labels to set, and to remove."""

    labels: Annotated[dict[Key, Value | None], Field(max_length=MAX_LABELS)] = Field(
        description="value by key; null removes the label, and what isn't named stays"
    )


class LabelsView(BaseModel):
    """All labels of a device."""

    labels: dict[str, str]


class LabelRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock

    def change_labels(self, device: str, body: LabelChanges, caller: Asking) -> LabelsView:
        """Set some labels of a device and remove others."""
        with self._sessions() as session:
            labels = change_labels(session, device, body.labels, actor=caller.actor, now=self._clock())
        return LabelsView(labels=labels)


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock) -> APIRouter:
    """Routes of `/api/v1/devices/…/labels`."""
    routes = LabelRoutes(sessions=sessions, clock=clock)
    router = APIRouter(prefix="/api/v1/devices", tags=["devices"], responses=ERRORS)
    operator = [Depends(gate.operator)]
    router.add_api_route("/{device}/labels", routes.change_labels, methods=["PATCH"], dependencies=operator)
    return router
