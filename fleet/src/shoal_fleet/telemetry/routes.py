"""Which paths of the API show what devices have sent?"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlalchemy.orm import Session

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.telemetry import queries
from shoal_fleet.telemetry.views import AnswerCount, AnswerView, EventView, TelemetryView
from shoal_fleet.times import Clock

DEFAULT_WINDOW_S = 150.0
"""Two of an agent's intervals, and some."""

Device = Annotated[str | None, Query(max_length=200, description="id or name")]
Release = Annotated[str | None, Query(max_length=63)]
Version = Annotated[int | None, Query(ge=1, lt=2**31)]
AfterId = Annotated[int, Query(ge=0, lt=2**63, description="the last id that was read")]
Limit = Annotated[int, Query(ge=1, le=1000)]
Window = Annotated[float, Query(gt=0, le=86400, allow_inf_nan=False)]


class TelemetryRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock

    def list_answers(
        self,
        device: Device = None,
        release: Release = None,
        version: Version = None,
        after_id: AfterId = 0,
        limit: Limit = 100,
    ) -> list[AnswerView]:
        """Answers in the order in which they were stored."""
        with self._sessions() as session:
            rows = queries.list_answers(
                session,
                device_id=_device_id(session, device),
                release=release,
                version=version,
                after_id=after_id,
                limit=limit,
            )
            return [AnswerView.of(row) for row in rows]

    def count_answers(self, device: Device = None, release: Release = None, version: Version = None) -> AnswerCount:
        """How many answers are stored."""
        with self._sessions() as session:
            device_id = _device_id(session, device)
            return AnswerCount(
                count=queries.count_answers(session, device_id=device_id, release=release, version=version)
            )

    def list_events(self, device: Device = None, after_id: AfterId = 0, limit: Limit = 100) -> list[EventView]:
        """Events in the order in which they were stored."""
        with self._sessions() as session:
            device_id = _device_id(session, device)
            rows = queries.list_events(session, device_id=device_id, after_id=after_id, limit=limit)
            return [EventView.of(row) for row in rows]

    def show_telemetry(self, device: Device = None, window_s: Window = DEFAULT_WINDOW_S) -> list[TelemetryView]:
        """What each device counted over the last seconds."""
        with self._sessions() as session:
            chosen = devices.list_devices(session) if device is None else [devices.find_device(session, device)]
            paces = queries.measure_pace(session, now=self._clock(), window_s=window_s)
            return [
                TelemetryView.of(
                    device_id=one.id,
                    window_s=window_s,
                    pace=paces.get(one.id),
                    totals=queries.total_streams(session, device_id=one.id),
                    processes=list(queries.find_processes(session, device_id=one.id)),
                )
                for one in chosen
            ]


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock) -> APIRouter:
    """Routes of `/api/v1/answers`, `/api/v1/events` and `/api/v1/telemetry`."""
    routes = TelemetryRoutes(sessions=sessions, clock=clock)
    router = APIRouter(prefix="/api/v1", tags=["telemetry"], responses=ERRORS, dependencies=[Depends(gate.viewer)])
    router.add_api_route("/answers", routes.list_answers, methods=["GET"])
    router.add_api_route("/answers/count", routes.count_answers, methods=["GET"])
    router.add_api_route("/events", routes.list_events, methods=["GET"])
    router.add_api_route("/telemetry", routes.show_telemetry, methods=["GET"])
    return router


def _device_id(session: Session, id_or_name: str | None) -> str | None:
    return None if id_or_name is None else devices.find_device(session, id_or_name).id
