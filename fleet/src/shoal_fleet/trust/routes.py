"""Which paths of the API show, begin and renew the publisher's trust?"""

from fastapi import APIRouter, Depends, Response
from sqlalchemy.orm import Session

from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.access.projects import check_target_within
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.times import Clock
from shoal_fleet.trust import expiry, service
from shoal_fleet.trust.views import Ceremony, NextKeysView, TrustUpdate, TrustView


class TrustRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, clock: Clock, keys: OnlineKeys, issuer: str) -> None:
        self._sessions = sessions
        self._clock = clock
        self._keys = keys
        self._issuer = issuer

    def show_trust(self) -> TrustView:
        """Root and targets metadata in use, and what ends soon."""
        with self._sessions() as session:
            return self._view(session)

    def show_metadata(self, file_name: str) -> Response:
        """Signed metadata by its name: `timestamp.json`, or `<version>.<role>.json`."""
        with self._sessions() as session:
            return Response(service.read_metadata(session, file_name), media_type="application/json")

    def show_target(self, prefixed_path: str, caller: Asking) -> Response:
        """A target, by its path with its digest before the file's name. A manifest is its project's."""
        with self._sessions() as session:
            check_target_within(session, prefixed_path, within=caller.reach)
            return Response(service.read_target(session, prefixed_path), media_type="application/octet-stream")

    def show_next_keys(self) -> NextKeysView:
        """Keys of the fleet that count once the publisher's root and assignment keys name them."""
        with self._sessions() as session:
            coming = self._keys.find_next(session)
        return NextKeysView() if coming is None else NextKeysView(**coming[0].public())

    def begin_trust(self, body: Ceremony) -> TrustView:
        """Register a publisher: the first root and targets metadata. This can be done once."""
        with self._sessions() as session:
            service.begin(
                session,
                root=body.root,
                targets=body.targets,
                target_files=body.target_files,
                keys=self._keys,
                issuer=self._issuer,
                now=self._clock(),
            )
            return self._view(session)

    def update_trust(self, body: TrustUpdate, caller: Asking) -> TrustView:
        """Take metadata that the publisher has signed anew: keys, floors, releases that are gone, later expiry."""
        with self._sessions() as session:
            service.update(
                session,
                body.to_update(),
                keys=self._keys,
                issuer=self._issuer,
                by=caller.actor,
                now=self._clock(),
            )
            return self._view(session)

    def _view(self, session: Session) -> TrustView:
        return TrustView.of(
            service.find_trusted(session),
            versions=service.versions(session),
            expiries=expiry.list_expiries(session),
            ending=expiry.list_ending(session, now=self._clock()),
        )


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock, keys: OnlineKeys, issuer: str) -> APIRouter:
    """Routes of `/api/v1/trust`. `issuer` is the fingerprint of the authority that issues."""
    routes = TrustRoutes(sessions=sessions, clock=clock, keys=keys, issuer=issuer)
    router = APIRouter(prefix="/api/v1/trust", tags=["trust"], responses=ERRORS)
    viewer, releaser, everywhere = (Depends(one) for one in (gate.viewer, gate.releaser, gate.fleet_admin))
    router.add_api_route("", routes.show_trust, methods=["GET"], dependencies=[releaser])
    router.add_api_route("", routes.begin_trust, methods=["POST"], status_code=201, dependencies=[everywhere])
    router.add_api_route("/updates", routes.update_trust, methods=["POST"], status_code=201, dependencies=[releaser])
    router.add_api_route("/metadata/{file_name}", routes.show_metadata, methods=["GET"], dependencies=[releaser])
    router.add_api_route("/targets/{prefixed_path:path}", routes.show_target, methods=["GET"], dependencies=[releaser])
    router.add_api_route("/next-keys", routes.show_next_keys, methods=["GET"], dependencies=[viewer])
    return router
