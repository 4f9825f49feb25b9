"""Which paths of the API show devices, and decide about them?"""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from shoal_wire.expression.parsing import MAX_CHARACTERS

from shoal_fleet.access import moves
from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.access.roles import check_within
from shoal_fleet.access.views import ProjectChoice
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.devices import lifecycle, service
from shoal_fleet.devices.views import DeviceDetail, DeviceView
from shoal_fleet.labels.service import all_labels, labels_of
from shoal_fleet.targeting import service as targeting
from shoal_fleet.telemetry import queries
from shoal_fleet.times import Clock

Where = Annotated[str | None, Query(max_length=MAX_CHARACTERS, description='an expression, as labels.site == "north"')]


class NewName(BaseModel):
    """What a device is to be called."""

    name: Annotated[str, Field(pattern=lifecycle.NAME)]


class DeviceRoutes:
    """Handlers."""

    def __init__(
        self, *, sessions: Sessions, clock: Clock, note_shut_out: Callable[[str], None], wake: Callable[[], None]
    ) -> None:
        """`note_shut_out` is told the id of a device that was revoked, and returns when that counts; `wake` has waiting
        documents published."""
        self._sessions = sessions
        self._clock = clock
        self._note_shut_out = note_shut_out
        self._wake = wake

    def list_devices(self, where: Where = None) -> list[DeviceView]:
        """All devices, or those that an expression means; revoked ones last."""
        with self._sessions() as session:
            if where is None:
                found = service.list_devices(session)
            else:
                found = targeting.list_matching(session, where, now=self._clock())
            ends, labels = service.certificate_ends(session), all_labels(session)
            return [
                DeviceView.of(one, certificate_ends_at=ends.get(one.id), labels=labels.get(one.id, {})) for one in found
            ]

    def show_device(self, device: str) -> DeviceDetail:
        """One device, by its id or its name."""
        with self._sessions() as session:
            found = service.find_device(session, device)
            deaths = queries.count_deaths(session, now=self._clock())
            ends = service.certificate_ends(session)
            return DeviceDetail.of(
                found,
                certificate_ends_at=ends.get(found.id),
                labels=labels_of(session, found.id),
                worker_deaths=deaths.get(found.id, 0),
            )

    def revoke_device(self, device: str, caller: Asking) -> DeviceView:
        """Shut a device out for good: its certificate, and its open connection to the broker."""
        with self._sessions() as session:
            revoked = service.revoke(session, device, actor=caller.actor, now=self._clock())
        self._note_shut_out(revoked.id)
        return DeviceView.of(revoked)

    def decommission_device(self, device: str, caller: Asking) -> DeviceView:
        """Take a device out of use: it is shut out, and only its history stays."""
        with self._sessions() as session:
            gone = lifecycle.decommission(session, device, actor=caller.actor, now=self._clock())
        self._note_shut_out(gone.id)
        return DeviceView.of(gone)

    def release_hold(self, device: str, caller: Asking) -> DeviceView:
        """Let a device that was held get new documents again."""
        with self._sessions() as session:
            released = lifecycle.release_hold(session, device, actor=caller.actor, now=self._clock())
        self._wake()
        return DeviceView.of(released)

    def rename_device(self, device: str, body: NewName, caller: Asking) -> DeviceView:
        """Call a device otherwise."""
        with self._sessions() as session:
            renamed = lifecycle.rename(session, device, name=body.name, actor=caller.actor, now=self._clock())
        return DeviceView.of(renamed)

    def move_device(self, device: str, body: ProjectChoice, caller: Asking) -> DeviceView:
        """Have a device be of another project. It goes on with what it runs."""
        check_within(body.project, caller.reach)
        with self._sessions() as session:
            moved = moves.move_device(session, device, project=body.project, actor=caller.actor, now=self._clock())
            return DeviceView.of(moved)


def make_router(
    *,
    sessions: Sessions,
    gate: Gate,
    clock: Clock,
    note_shut_out: Callable[[str], None],
    wake: Callable[[], None],
) -> APIRouter:
    """Routes of `/api/v1/devices`."""
    routes = DeviceRoutes(sessions=sessions, clock=clock, note_shut_out=note_shut_out, wake=wake)
    router = APIRouter(prefix="/api/v1/devices", tags=["devices"], responses=ERRORS)
    viewer, operator = [Depends(gate.viewer)], [Depends(gate.operator)]
    router.add_api_route("", routes.list_devices, methods=["GET"], dependencies=viewer)
    router.add_api_route("/{device}", routes.show_device, methods=["GET"], dependencies=viewer)
    for path, handler in (
        ("/{device}/revoke", routes.revoke_device),
        ("/{device}/decommission", routes.decommission_device),
        ("/{device}/release-hold", routes.release_hold),
        ("/{device}/rename", routes.rename_device),
    ):
        router.add_api_route(path, handler, methods=["POST"], dependencies=operator)
    admin = [Depends(gate.admin)]
    router.add_api_route("/{device}/move", routes.move_device, methods=["POST"], dependencies=admin)
    return router
