"""Does each route of the operators' listener ask who is there, or say why it needn't?

The routes are read from the application that the server itself makes, with pages and whatever stands in no list.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping

import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import RouteContext, iter_route_contexts
from shoal_fleet.access.gate import Gate
from shoal_fleet.app import Server
from shoal_fleet.configuration import Configuration, OidcSettings
from shoal_fleet.database import make_sessions
from shoal_fleet.state import StatePaths, initialise, open_database, unlock

pytest.importorskip("authlib.integrations.httpx_client", reason="needs shoal-fleet[oidc]")

PUBLIC: Mapping[str, str] = {
    "GET /api/v1/health": "says `ok` or `degraded` and nothing else, to whatever watches the server",
    "POST /v1/enrol": "asks for an enrolment token",
    "GET /v1/authority.pem": "is a certificate, which a board compares with its token",
    "GET /v1/renewal/challenge": "is a random number",
    "POST /v1/renewal": "asks for the proof of an enrolled key",
    "GET /login": "is the form",
    "POST /login": "asks for a password",
    "GET /login/provider": "sends to the identity provider",
    "GET /login/provider/callback": "asks for the provider's word",
}
"""Routes without a gate, and why."""


async def read_routes(paths: StatePaths) -> list[RouteContext]:
    now = time.time()
    vault = unlock(paths, now=now)
    initialise(paths, now=now, vault=vault)
    engine = open_database(paths)
    oidc = OidcSettings(issuer="https://login.example", client_id="shoal", roles={})
    configuration = Configuration(port=0, devices_port=0, broker_port=0, oidc=oidc)
    server = Server(paths, configuration, sessions=make_sessions(engine), vault=vault, clock=time.time)
    for listening in (server._operators_socket, server._devices_socket):
        listening.close()
    engine.dispose()
    return list(iter_route_contexts(server.make_api().routes))


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RouteContext]:
    """By method and path."""
    found = asyncio.run(read_routes(StatePaths(tmp_path_factory.mktemp("fleet") / "state")))
    return {f"{method} {route.path}": route for route in found for method in sorted(route.methods or {"ANY"})}


def dependencies(dependant: Dependant) -> Iterator[object]:
    """What a route depends on, at whatever depth."""
    for one in dependant.dependencies:
        yield one.call
        yield from dependencies(one)


def is_gated(route: RouteContext) -> bool:
    """A route of another kind than FastAPI's own has no dependencies, and so no gate."""
    dependant = getattr(route, "dependant", None)
    return dependant is not None and any(
        isinstance(getattr(call, "__self__", None), Gate) for call in dependencies(dependant)
    )


def test_every_route_has_a_gate_or_is_public_for_a_reason(routes: Mapping[str, RouteContext]) -> None:
    assert len(routes) > 60
    assert {name for name, route in routes.items() if not is_gated(route)} == set(PUBLIC)
