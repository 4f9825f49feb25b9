"""Which paths of the API show and begin the publisher's trust?"""

import base64
from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Base64Bytes, BaseModel, Field

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.times import Clock
from shoal_fleet.trust import service
from shoal_fleet.trust.service import Trusted

TargetPath = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99}/){0,2}[A-Za-z0-9][A-Za-z0-9._-]{0,90}$")]


class TrustView(BaseModel):
    """Root and targets metadata in base64, as the publisher signed them; null before the ceremony."""

    root: str | None
    targets: str | None

    @classmethod
    def of(cls, trusted: Trusted) -> "TrustView":
        """View of what is trusted."""
        return cls(root=_text(trusted.root), targets=_text(trusted.targets))


class Ceremony(BaseModel):
    """First metadata of a publisher, all bytes in base64."""

    root: Base64Bytes
    targets: Base64Bytes
    target_files: Annotated[Mapping[TargetPath, Base64Bytes], Field(max_length=64)]


class TrustRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, clock: Clock, keys: OnlineKeys) -> None:
        self._sessions = sessions
        self._clock = clock
        self._keys = keys

    def show_trust(self) -> TrustView:
        """Root and targets metadata in use."""
        with self._sessions() as session:
            return TrustView.of(service.find_trusted(session))

    def begin_trust(self, body: Ceremony) -> TrustView:
        """Register a publisher: the first root and targets metadata. This can be done once."""
        with self._sessions() as session:
            trusted = service.begin(
                session,
                root=body.root,
                targets=body.targets,
                target_files=body.target_files,
                keys=self._keys,
                now=self._clock(),
            )
        return TrustView.of(trusted)


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock, keys: OnlineKeys) -> APIRouter:
    """Routes of `/api/v1/trust`."""
    routes = TrustRoutes(sessions=sessions, clock=clock, keys=keys)
    router = APIRouter(prefix="/api/v1/trust", tags=["trust"], responses=ERRORS)
    router.add_api_route("", routes.show_trust, methods=["GET"], dependencies=[Depends(gate.reader)])
    router.add_api_route("", routes.begin_trust, methods=["POST"], status_code=201, dependencies=[Depends(gate.admin)])
    return router


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()
