"""Which paths of the API show the audit log?"""

import json
from collections.abc import Iterator
from typing import Annotated, Any, Self

import msgspec
from fastapi import APIRouter, Depends, Query
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from shoal_wire.audit import AuditEntry

from shoal_fleet.access.gate import Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.audit import service
from shoal_fleet.audit.checkpoints import Checkpoints
from shoal_fleet.audit.service import Filter
from shoal_fleet.database import Sessions

Before = Annotated[int | None, Query(ge=1, le=2**53, description="only entries below this number")]
After = Annotated[int, Query(ge=0, le=2**53, description="only entries above this number")]
Word = Annotated[str, Query(max_length=300)]
ActionWord = Annotated[str, Query(max_length=64, description="an action, or its first word for all that begin so")]
Limit = Annotated[int, Query(ge=1, le=1000)]

NDJSON = "application/x-ndjson"


class AuditEntryView(BaseModel):
    """What happened, by whom, to what. Each entry holds the digest of the one before."""

    sequence: int
    at: float
    actor: str
    action: str
    subject: str
    detail: dict[str, Any]
    previous: str
    digest: str

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """View of an entry."""
        return cls.model_validate(entry, from_attributes=True)


class CheckpointView(BaseModel):
    """How far the log has come, signed by the fleet."""

    sequence: int
    digest: str
    envelope: dict[str, Any]
    """DSSE, over the type `application/vnd.shoal.audit-checkpoint.v1+json`."""
    key: str
    """Public half of the key that signs checkpoints: SubjectPublicKeyInfo in base64."""


class AuditRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, checkpoints: Checkpoints) -> None:
        self._sessions = sessions
        self._checkpoints = checkpoints

    def list_entries(
        self, before: Before = None, actor: Word = "", action: ActionWord = "", subject: Word = "", limit: Limit = 100
    ) -> list[AuditEntryView]:
        """The newest entries first. For the next page ask for those below the last that was shown."""
        with self._sessions() as session:
            wanted = Filter(actor=actor, action=action, subject=subject)
            entries = service.list_entries(session, before=before, wanted=wanted, limit=limit)
        return [AuditEntryView.of(entry) for entry in entries]

    def export(self, after: After = 0) -> StreamingResponse:
        """Every entry as a line of JSON, oldest first, and in the last line a checkpoint of them."""
        return StreamingResponse(self._lines(after), media_type=NDJSON)

    def show_checkpoint(self) -> CheckpointView:
        """A new checkpoint of the present log."""
        with self._sessions() as session:
            head = service.find_head(session)
        return CheckpointView(
            sequence=head.sequence,
            digest=head.digest,
            envelope=json.loads(self._checkpoints.sign(head)),
            key=self._checkpoints.key.public,
        )

    def _lines(self, after: int) -> Iterator[bytes]:
        with self._sessions() as session:
            head = service.find_head(session)
            for entry in service.read_entries(session, after=after, until=head.sequence):
                yield msgspec.json.encode(entry) + b"\n"
        yield msgspec.json.encode({"checkpoint": msgspec.Raw(self._checkpoints.sign(head))}) + b"\n"


def make_router(*, sessions: Sessions, gate: Gate, checkpoints: Checkpoints) -> APIRouter:
    """Routes of `/api/v1/audit`."""
    routes = AuditRoutes(sessions=sessions, checkpoints=checkpoints)
    admin = [Depends(gate.fleet_admin)]
    router = APIRouter(prefix="/api/v1/audit", tags=["audit"], responses=ERRORS, dependencies=admin)
    router.add_api_route("", routes.list_entries, methods=["GET"])
    router.add_api_route(
        "/export",
        routes.export,
        methods=["GET"],
        response_class=StreamingResponse,
        responses={200: {"content": {NDJSON: {}}, "description": "entries, one a line, then a checkpoint"}},
    )
    router.add_api_route("/checkpoint", routes.show_checkpoint, methods=["GET"])
    return router
