"""Which paths of the API take sealed files and releases in, and show them?"""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Base64Bytes, BaseModel, Field
from shoal_wire.grant import Grant

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases import service
from shoal_fleet.releases.models import Release
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.times import Clock

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[int, Field(ge=1, lt=2**31)]


class GrantBody(BaseModel):
    """A content key sealed to the fleet (RFC 9180)."""

    ciphertext_sha256: Sha256
    counter: Annotated[int, Field(ge=0, lt=2**63)]
    sealed_key: Annotated[str, Field(max_length=1000)]

    def to_grant(self) -> Grant:
        """The same as the wire has it."""
        return Grant(self.ciphertext_sha256, self.counter, self.sealed_key)


class NewRelease(BaseModel):
    """A signed release; bytes in base64."""

    targets: Base64Bytes
    manifest: Base64Bytes
    grants: Annotated[list[GrantBody], Field(max_length=4096)]


class ReleaseView(BaseModel):
    """A release of this fleet."""

    name: str
    version: int
    manifest_sha256: str
    targets_version: int
    created_at: float

    @classmethod
    def of(cls, release: Release) -> "ReleaseView":
        """View of a row."""
        return cls.model_validate(release, from_attributes=True)


class ReleaseDetail(ReleaseView):
    """A release with its manifest, parsed."""

    manifest: dict[str, object]


class SealedView(BaseModel):
    """A sealed file that the fleet has."""

    ciphertext_sha256: str
    ciphertext_bytes: int


class ReleaseRoutes:
    """Handlers."""

    def __init__(
        self, *, sessions: Sessions, clock: Clock, keys: OnlineKeys, store: SealedStore, limit_bytes: int
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._keys = keys
        self._store = store
        self._limit_bytes = limit_bytes

    def find_sealed(self, ciphertext_sha256: Sha256) -> Response:
        """Whether the fleet has that sealed file."""
        size_bytes = self._store.find(ciphertext_sha256).stat().st_size
        return Response(headers={"Content-Length": str(size_bytes)})

    async def receive_sealed(self, ciphertext_sha256: Sha256, request: Request) -> SealedView:
        """Upload a sealed file: its bytes are the body, and their SHA-256 is the last part of the path."""
        size_bytes = await self._store.receive(ciphertext_sha256, request.stream(), limit_bytes=self._limit_bytes)
        return SealedView(ciphertext_sha256=ciphertext_sha256, ciphertext_bytes=size_bytes)

    def create_release(self, body: NewRelease) -> ReleaseView:
        """Add a release. Its sealed files come first, and its targets metadata is the next version."""
        grants = [grant.to_grant() for grant in body.grants]
        with self._sessions() as session:
            release = service.create_release(
                session,
                targets=body.targets,
                manifest=body.manifest,
                grants=grants,
                store=self._store,
                keys=self._keys,
                now=self._clock(),
            )
        return ReleaseView.of(release)

    def list_releases(self) -> list[ReleaseView]:
        """All releases, the newest version of each first."""
        with self._sessions() as session:
            return [ReleaseView.of(release) for release in service.list_releases(session)]

    def show_release(self, name: str, version: Version) -> ReleaseDetail:
        """One release with its manifest."""
        with self._sessions() as session:
            release = service.find_release(session, name=name, version=version)
            manifest = msgspec.to_builtins(service.read_manifest(session, release))
        return ReleaseDetail(**ReleaseView.of(release).model_dump(), manifest=manifest)


def make_router(
    *, sessions: Sessions, gate: Gate, clock: Clock, keys: OnlineKeys, store: SealedStore, limit_bytes: int
) -> APIRouter:
    """Routes of `/api/v1/sealed` and `/api/v1/releases`. `limit_bytes` is that of one sealed file."""
    routes = ReleaseRoutes(sessions=sessions, clock=clock, keys=keys, store=store, limit_bytes=limit_bytes)
    router = APIRouter(prefix="/api/v1", tags=["releases"], responses=ERRORS)
    reader, admin = [Depends(gate.reader)], [Depends(gate.admin)]
    sealed = "/sealed/{ciphertext_sha256}"
    router.add_api_route(sealed, routes.find_sealed, methods=["HEAD"], dependencies=reader)
    router.add_api_route(sealed, routes.receive_sealed, methods=["PUT"], status_code=201, dependencies=admin)
    router.add_api_route("/releases", routes.create_release, methods=["POST"], status_code=201, dependencies=admin)
    router.add_api_route("/releases", routes.list_releases, methods=["GET"], dependencies=reader)
    router.add_api_route("/releases/{name}/{version}", routes.show_release, methods=["GET"], dependencies=reader)
    return router
