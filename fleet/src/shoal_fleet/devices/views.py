"""What does the API say of a device?"""

import base64
from typing import Self

import msgspec
from pydantic import BaseModel
from shoal_wire.messages import Reported
from shoal_wire.tuning import BoardKind

from shoal_fleet.devices import service
from shoal_fleet.devices.models import Device


class ReferenceView(BaseModel):
    """A release by name and by the digest of its manifest."""

    release: str
    version: int
    manifest_sha256: str


class SlotView(BaseModel):
    """What the device has for one model, as it says itself."""

    release: str
    current: ReferenceView | None
    previous: ReferenceView | None
    serving: ReferenceView | None
    variant: str
    engine: str
    engine_version: str
    placement: list[str]
    refused: list[int]


class UpdateView(BaseModel):
    """How far the device is with its newest desired document, or how that ended."""

    epoch: int
    generation: int
    target: ReferenceView
    state: str
    reason: str
    fetched_bytes: int


class BoardView(BaseModel):
    """What makes two boards equally fast, as far as a board can tell."""

    architecture: str
    board: str
    processor: str
    processors: int
    governor: str
    is_emulated: bool
    fingerprint: str
    """Equal for boards of one kind."""

    @classmethod
    def of(cls, kind: BoardKind) -> Self:
        """View of a kind of board."""
        return cls.model_validate(msgspec.to_builtins(kind) | {"fingerprint": kind.fingerprint})


class AgentView(BaseModel):
    """How the device stands to releases of the agent itself."""

    machine: str
    python: str
    state_format: int
    can_update: bool
    why_not: str
    is_on_trial: bool


class ReportedView(BaseModel):
    """What the device last said of itself, in a document that it signed."""

    counter: int
    at: float
    epoch: int
    generation: int
    slots: list[SlotView]
    update: UpdateView | None
    kind: BoardView | None
    agent: AgentView | None = None
    """None from an agent that is older than such releases."""

    @classmethod
    def of(cls, reported: Reported) -> Self:
        """View of a reported document."""
        kind = None if reported.kind is None else BoardView.of(reported.kind)
        return cls.model_validate(msgspec.to_builtins(reported) | {"kind": kind})


class DeviceView(BaseModel):
    """A device. Times are Unix seconds by the fleet's clock."""

    id: str
    name: str
    project: str
    profile: str
    agent_version: str
    online: bool
    enrolled_at: float
    revoked_at: float | None
    last_seen: float | None
    reported: ReportedView | None
    held_at: float | None
    """Since when it gets nothing new."""
    held_reason: str | None
    decommissioned_at: float | None
    replaces: str | None
    """Id of the device whose place it took."""
    renews: bool
    """Its agent renews its certificate by itself."""
    certificate_ends_at: float | None
    """Of its last certificate that isn't revoked."""
    labels: dict[str, str] | None
    """None where they weren't looked at."""
    went_back: int
    """How often its reports began anew below what was heard before: restored, or one of two boards that take turns."""

    @classmethod
    def of(
        cls, device: Device, *, certificate_ends_at: float | None = None, labels: dict[str, str] | None = None
    ) -> Self:
        """View of a row, and of the device's certificates and labels where they were looked at."""
        more = {"certificate_ends_at": certificate_ends_at, "labels": labels}
        return cls.model_validate(_fields(device) | more)


class DeviceDetail(DeviceView):
    """A device with how it fares and what proves its word: the key, and the signed document as it came."""

    worker_deaths: int
    """That came in over the last 24 hours."""
    identity_key: str
    reported_envelope: str | None
    """In base64."""

    @classmethod
    def of(
        cls,
        device: Device,
        *,
        certificate_ends_at: float | None = None,
        labels: dict[str, str] | None = None,
        worker_deaths: int = 0,
    ) -> Self:
        """View of a row, of the device's certificates and labels, and of what its telemetry counted."""
        raw = device.reported_envelope
        more = {
            "certificate_ends_at": certificate_ends_at,
            "labels": labels,
            "worker_deaths": worker_deaths,
            "identity_key": device.identity_key,
            "reported_envelope": None if raw is None else base64.b64encode(raw).decode(),
        }
        return cls.model_validate(_fields(device) | more)


def _fields(device: Device) -> dict[str, object]:
    reported = service.last_reported(device)
    return {
        "id": device.id,
        "name": device.name,
        "project": device.project,
        "profile": device.profile,
        "agent_version": device.agent_version,
        "online": device.is_online,
        "enrolled_at": device.enrolled_at,
        "revoked_at": device.revoked_at,
        "last_seen": device.last_seen_at,
        "reported": None if reported is None else ReportedView.of(reported),
        "held_at": device.held_at,
        "held_reason": device.held_reason,
        "decommissioned_at": device.decommissioned_at,
        "replaces": device.replaces,
        "renews": device.renews,
        "went_back": service.read_lineage(device).went_back,
    }
