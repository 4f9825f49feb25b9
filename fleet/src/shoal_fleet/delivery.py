"""What does the listener for devices serve?

Sealed files by digest and signed metadata, the same to every device, and the next certificate to one that asks in time.
Whatever else is particular to one goes over MQTT. Who asks was settled by TLS: a client certificate of this fleet that
isn't revoked.
"""

from fastapi import APIRouter, FastAPI
from fastapi.responses import FileResponse, Response
from shoal_wire import paths

from shoal_fleet.api import install_error_answers
from shoal_fleet.database import Sessions
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.trust import service as trust


class DeliveryRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, store: SealedStore) -> None:
        self._sessions = sessions
        self._store = store

    def read_sealed(self, sha256: str) -> FileResponse:
        """A sealed file, or a range of it. The digest names its bytes, so it never changes."""
        return FileResponse(self._store.find(sha256), media_type="application/octet-stream")

    def read_metadata(self, file_name: str) -> Response:
        """Signed metadata by its name."""
        with self._sessions() as session:
            return Response(trust.read_metadata(session, file_name), media_type="application/json")

    def read_target(self, prefixed_path: str) -> Response:
        """A target, by its path with its digest before the file's name."""
        with self._sessions() as session:
            return Response(trust.read_target(session, prefixed_path), media_type="application/octet-stream")


def make_delivery(*, sessions: Sessions, store: SealedStore, renewal: APIRouter) -> FastAPI:
    """Application of the devices' listener. `renewal` holds the paths by which a device renews its certificate."""
    app = FastAPI(title="Shoal deliveries", openapi_url=None, docs_url=None, redoc_url=None)
    install_error_answers(app)
    routes = DeliveryRoutes(sessions=sessions, store=store)
    for path, handler in (
        (paths.SEALED + "{sha256}", routes.read_sealed),
        (paths.TUF_METADATA + "{file_name}", routes.read_metadata),
        (paths.TUF_TARGETS + "{prefixed_path:path}", routes.read_target),
    ):
        app.add_api_route(path, handler, methods=["GET", "HEAD"])
    app.include_router(renewal)
    return app
