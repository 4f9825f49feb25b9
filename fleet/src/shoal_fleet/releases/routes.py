"""Which paths of the API take sealed files and releases in, and show them?"""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse
from pydantic import Base64Bytes, BaseModel, Field
from shoal_wire.grant import X25519, Grant

from shoal_fleet.access import moves
from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.access.roles import check_within
from shoal_fleet.access.views import ProjectChoice, ProjectName
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.releases import service
from shoal_fleet.releases.models import Release
from shoal_fleet.releases.reading import check_known, check_readable
from shoal_fleet.releases.sealed_store import SealedStore
from shoal_fleet.times import Clock
from shoal_fleet.trust.views import MAX_BINS, BinName

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Version = Annotated[int, Field(ge=1, lt=2**31)]


class GrantBody(BaseModel):
    """A content key sealed to the fleet (RFC 9180)."""

    ciphertext_sha256: Sha256
    counter: Annotated[int, Field(ge=0, lt=2**63)]
    sealed_key: Annotated[str, Field(max_length=4000)]
    suite: Annotated[str, Field(max_length=64)] = X25519

    def to_grant(self) -> Grant:
        """The same as the wire has it."""
        return Grant(self.ciphertext_sha256, self.counter, self.sealed_key, self.suite)


class NewRelease(BaseModel):
    """A signed release; bytes in base64."""

    targets: Base64Bytes | None = None
    """The next targets metadata; null where only a bin changes."""
    bins: Annotated[dict[BinName, Base64Bytes], Field(max_length=MAX_BINS)] = {}
    """The next metadata of the bin that lists the release, and of others that change with it."""
    manifest: Base64Bytes
    grants: Annotated[list[GrantBody], Field(max_length=4096)]
    project: ProjectName | None = None
    """To which the releases of this name belong. The first one decides; null where the caller has but one."""


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


class MovedReleases(BaseModel):
    """All releases of a name, and the project that they belong to."""

    name: str
    project: str


class SealedView(BaseModel):
    """A sealed file that the fleet has."""

    ciphertext_sha256: str
    ciphertext_bytes: int


class ReleaseRoutes:
    """Handlers."""

    def __init__(
        self, *, sessions: Sessions, clock: Clock, keys: OnlineKeys, issuer: str, store: SealedStore, limit_bytes: int
    ) -> None:
        self._sessions = sessions
        self._clock = clock
        self._keys = keys
        self._issuer = issuer
        self._store = store
        self._limit_bytes = limit_bytes

    def find_sealed(self, ciphertext_sha256: Sha256) -> Response:
        """Whether the fleet has that sealed file, as far as it is no other project's."""
        with self._sessions() as session:
            check_known(session, ciphertext_sha256)
        size_bytes = self._store.find(ciphertext_sha256).stat().st_size
        return Response(headers={"Content-Length": str(size_bytes)})

    def read_sealed(self, ciphertext_sha256: Sha256) -> FileResponse:
        """A sealed file, for a publisher who seals it anew. It says nothing without its content key."""
        with self._sessions() as session:
            check_readable(session, ciphertext_sha256)
        return FileResponse(self._store.find(ciphertext_sha256), media_type="application/octet-stream")

    async def receive_sealed(self, ciphertext_sha256: Sha256, request: Request) -> SealedView:
        """Upload a sealed file: its bytes are the body, and their SHA-256 is the last part of the path."""
        size_bytes = await self._store.receive(ciphertext_sha256, request.stream(), limit_bytes=self._limit_bytes)
        return SealedView(ciphertext_sha256=ciphertext_sha256, ciphertext_bytes=size_bytes)

    def create_release(self, body: NewRelease, caller: Asking) -> ReleaseView:
        """Add a release. Its sealed files come first, and its signed metadata is the next version."""
        grants = [grant.to_grant() for grant in body.grants]
        with self._sessions() as session:
            release = service.create_release(
                session,
                targets=body.targets,
                bins=body.bins,
                manifest=body.manifest,
                grants=grants,
                store=self._store,
                keys=self._keys,
                issuer=self._issuer,
                now=self._clock(),
                project=body.project,
                within=caller.reach,
                actor=caller.actor,
            )
        return ReleaseView.of(release)

    def list_releases(self) -> list[ReleaseView]:
        """All releases, the newest version of each first."""
        with self._sessions() as session:
            return [ReleaseView.of(release) for release in service.list_releases(session)]

    def move_releases(self, name: str, body: ProjectChoice, caller: Asking) -> MovedReleases:
        """Have all releases of a name, and with them their rollouts, be of another project."""
        check_within(body.project, caller.reach)
        with self._sessions() as session:
            moves.move_releases(session, name, project=body.project, actor=caller.actor, now=self._clock())
        return MovedReleases(name=name, project=body.project)

    def show_release(self, name: str, version: Version) -> ReleaseDetail:
        """One release with its manifest."""
        with self._sessions() as session:
            release = service.find_release(session, name=name, version=version)
            manifest = msgspec.to_builtins(service.read_manifest(session, release))
        return ReleaseDetail(**ReleaseView.of(release).model_dump(), manifest=manifest)


def make_router(
    *,
    sessions: Sessions,
    gate: Gate,
    clock: Clock,
    keys: OnlineKeys,
    issuer: str,
    store: SealedStore,
    limit_bytes: int,
) -> APIRouter:
    """Routes of `/api/v1/sealed` and `/api/v1/releases`.

    `issuer` is the fingerprint of the authority that issues, `limit_bytes` is that of one sealed file.
    """
    routes = ReleaseRoutes(
        sessions=sessions, clock=clock, keys=keys, issuer=issuer, store=store, limit_bytes=limit_bytes
    )
    router = APIRouter(prefix="/api/v1", tags=["releases"], responses=ERRORS)
    viewer, releaser = [Depends(gate.viewer)], [Depends(gate.releaser)]
    sealed = "/sealed/{ciphertext_sha256}"
    router.add_api_route(sealed, routes.find_sealed, methods=["HEAD"], dependencies=releaser)
    router.add_api_route(sealed, routes.read_sealed, methods=["GET"], dependencies=releaser)
    router.add_api_route(sealed, routes.receive_sealed, methods=["PUT"], status_code=201, dependencies=releaser)
    router.add_api_route("/releases", routes.create_release, methods=["POST"], status_code=201, dependencies=releaser)
    router.add_api_route("/releases", routes.list_releases, methods=["GET"], dependencies=viewer)
    router.add_api_route(
        "/releases/{name}/move", routes.move_releases, methods=["POST"], dependencies=[Depends(gate.admin)]
    )
    router.add_api_route("/releases/{name}/{version}", routes.show_release, methods=["GET"], dependencies=viewer)
    return router
