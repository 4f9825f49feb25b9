"""What does `shoal` read in the fleet's answers? A newer fleet may say more; that is passed on by `--json` only."""

from typing import TypeVar

import msgspec
from shoal_wire.encoding import Seconds, Sha256
from shoal_wire.messages import AgentReport, ReleaseReference, SlotReport
from shoal_wire.tuning import BoardKind, Candidate, MeasuredCandidate

from shoal_fleet.command.errors import CommandError

_Kind = TypeVar("_Kind")


class Update(msgspec.Struct, frozen=True):
    """How far a device is with its newest update, or how that ended."""

    target: ReleaseReference
    state: str
    reason: str


class Reported(msgspec.Struct, frozen=True):
    """What a device last said of itself."""

    at: Seconds
    slots: tuple[SlotReport, ...]
    update: Update | None
    kind: BoardKind | None = None
    agent: AgentReport | None = None


class Device(msgspec.Struct, frozen=True):
    """A device. Times are by the fleet's clock."""

    id: str
    name: str
    profile: str
    agent_version: str
    online: bool
    enrolled_at: Seconds
    revoked_at: Seconds | None
    last_seen: Seconds | None
    reported: Reported | None
    project: str = ""
    worker_deaths: int | None = None
    """In the last 24 hours; None in a list of devices."""
    held_at: Seconds | None = None
    held_reason: str | None = None
    decommissioned_at: Seconds | None = None
    renews: bool = False
    certificate_ends_at: Seconds | None = None
    went_back: int = 0
    labels: dict[str, str] | None = None


class Warnings(msgspec.Struct, frozen=True):
    """What somebody should look after."""

    warnings: tuple[str, ...]


class ExposedFile(msgspec.Struct, frozen=True):
    """A file whose content key a device holds."""

    release: str
    version: int
    file: str
    plaintext_sha256: Sha256
    ciphertext_sha256: Sha256
    assigned_devices: int
    replaced_by: int | None


class Exposures(msgspec.Struct, frozen=True):
    """What one device, or all that are revoked, can open."""

    devices: tuple[str, ...]
    is_revoked: bool
    files: tuple[ExposedFile, ...]


class DeviceProof(msgspec.Struct, frozen=True):
    """The device's key, and the document that it last signed, in base64."""

    identity_key: str
    reported_envelope: str | None


class EnrolmentToken(msgspec.Struct, frozen=True):
    """A secret that enrols one device."""

    token: str
    expires_at: Seconds


class EndingMetadata(msgspec.Struct, frozen=True):
    """Signed metadata that ends soon, or has ended."""

    role: str
    version: int
    expires_at: Seconds
    is_expired: bool


class Trust(msgspec.Struct, frozen=True):
    """Root and targets metadata in base64; None before there is a publisher."""

    root: str | None
    targets: str | None
    versions: dict[str, int] = {}
    expires: dict[str, Seconds] = {}
    ending: tuple[EndingMetadata, ...] = ()


class NextKeys(msgspec.Struct, frozen=True):
    """Keys that are to follow those with which the fleet signs; None where there are none."""

    snapshot: str | None
    timestamp: str | None
    assignment: str | None


class Release(msgspec.Struct, frozen=True):
    """A release of the fleet."""

    name: str
    version: int
    manifest_sha256: Sha256
    created_at: Seconds


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    """A rollout with the number of its devices in each state."""

    id: int
    release: str
    version: int
    state: str
    counts: dict[str, int]
    created_at: Seconds
    reason: str = ""
    created_by: str = ""
    approvals_needed: int = 0
    approved_by: tuple[str, ...] = ()


class Attempt(msgspec.Struct, frozen=True):
    """One device of a rollout."""

    name: str
    state: str
    update: str
    reason: str
    wave: int = 1


class RolloutWave(msgspec.Struct, frozen=True, kw_only=True):
    """One wave of a rollout."""

    number: int
    state: str
    verdict: str
    counts: dict[str, int]
    soak_s: float = 0.0
    soaking_at: Seconds | None = None


class RolloutDetail(Rollout, frozen=True, kw_only=True):
    """A rollout, device by device."""

    devices: tuple[Attempt, ...]
    waves: tuple[RolloutWave, ...] = ()


class RolloutPreview(msgspec.Struct, frozen=True):
    """Names of devices, wave by wave."""

    waves: tuple[tuple[str, ...], ...]


class PolicyProposal(msgspec.Struct, frozen=True):
    """A lower number of approvals, which waits for approval itself."""

    approvals: int
    by: str
    approved_by: tuple[str, ...]
    approvals_needed: int


class RolloutPolicy(msgspec.Struct, frozen=True):
    """What a rollout needs before it begins, in every project or in one."""

    approvals: int
    project: str = "*"
    proposal: PolicyProposal | None = None


class Verdict(msgspec.Struct, frozen=True):
    """What a device found out about one model."""

    id: int
    device: str
    board: BoardKind
    model: str
    objective: str
    choice: Candidate
    measured: tuple[MeasuredCandidate, ...]
    is_settled: bool
    is_confirmed: bool


class Answer(msgspec.Struct, frozen=True):
    """What a model said about one item. `id` grows in the order in which answers were stored."""

    id: int
    device: str
    answer_id: str
    source: str
    item: str
    words: str


class Pace(msgspec.Struct, frozen=True):
    """How a device answered over the last seconds; None where it didn't."""

    device: str
    answers_per_s: float | None
    p50_ms: float | None
    p95_ms: float | None


class Project(msgspec.Struct, frozen=True):
    """Devices and releases that belong together."""

    name: str
    created_at: Seconds


class RoleInProject(msgspec.Struct, frozen=True):
    """A role, and where it counts; * is every project."""

    project: str
    role: str


class User(msgspec.Struct, frozen=True):
    """A person who may use the fleet."""

    name: str
    roles: tuple[RoleInProject, ...]
    is_from_provider: bool
    created_at: Seconds
    disabled_at: Seconds | None


class ApiToken(msgspec.Struct, frozen=True):
    """A token, without its secret; without an end it counts until it is revoked."""

    name: str
    roles: tuple[RoleInProject, ...]
    created_at: Seconds
    last_used_at: Seconds | None
    expires_at: Seconds | None
    made_by: str = ""


class MadeToken(msgspec.Struct, frozen=True):
    """A token with its secret."""

    token: str
    expires_at: Seconds | None


def describe_board(kind: BoardKind) -> str:
    """A kind of board in words."""
    threads = f"{kind.processors} {'thread' if kind.processors == 1 else 'threads'}"
    words = (kind.board, f"{kind.processor} ({kind.architecture})", threads, kind.governor)
    return ", ".join(filter(None, (*words, "emulated" if kind.is_emulated else "")))


def describe_agent(device: Device) -> str:
    """The agent of a device, and whether it can update itself."""
    about = device.reported.agent if device.reported else None
    if about is None:
        return device.agent_version
    words = f"{device.agent_version}, Python {about.python}" + (", on trial" if about.is_on_trial else "")
    return words if about.can_update else f"{words}; can't update itself: {about.why_not}"


def parse(answer: object, kind: type[_Kind], *, what: str) -> _Kind:
    """An answer of the API as what it should be.

    Raises:
        CommandError: it isn't.
    """
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise CommandError(f"{what}: not as a Shoal fleet of this version answers: {error}") from None
