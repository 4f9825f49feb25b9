"""Where does a monitoring system fetch its numbers?"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.metrics.inventory import read_inventory
from shoal_fleet.metrics.server import ServerFacts, describe_server
from shoal_fleet.metrics.traffic import Traffic
from shoal_fleet.times import Clock

METRICS_PATH = "/metrics"


class FleetCollector(Collector):
    """Looks at the fleet each time that it is asked; one asker at a time."""

    def __init__(self, *, sessions: Sessions, clock: Clock, database: Path, look: Callable[[], ServerFacts]) -> None:
        self._sessions = sessions
        self._clock = clock
        self._database = database
        self._look = look
        self._traffic = Traffic()
        self._lock = threading.Lock()

    def describe(self) -> list[Metric]:
        """Nothing: so that registering doesn't ask."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Every family of the fleet."""
        with self._lock, self._sessions() as session:
            self._traffic.catch_up(session)
            found = [*self._traffic.families(), *read_inventory(session, now=self._clock())]
        yield from describe_server(self._look(), database=self._database)
        yield from found


class MetricsRoutes:
    """Handlers."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def show_metrics(self, request: Request) -> Response:
        """Numbers of the whole fleet, in Prometheus' text format or OpenMetrics as the request prefers."""
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(self._registry), headers={"Content-Type": content_type, "Cache-Control": "no-store"})


def make_router(
    *, sessions: Sessions, gate: Gate, clock: Clock, database: Path, look: Callable[[], ServerFacts]
) -> APIRouter:
    """Route of `/metrics`: for whoever may see every project, as the numbers are of all of them."""
    registry = CollectorRegistry()
    registry.register(FleetCollector(sessions=sessions, clock=clock, database=database, look=look))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    routes = MetricsRoutes(registry)
    router = APIRouter(tags=["metrics"], responses=ERRORS, dependencies=[Depends(gate.fleet_viewer)])
    router.add_api_route(METRICS_PATH, routes.show_metrics, methods=["GET"], response_class=Response)
    return router
