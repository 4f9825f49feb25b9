"""What is there to see of the fleet at this moment, in the words of a person?

The pages only lay out what stands here.
"""

import enum
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.messages import Reported, SlotReport, UpdateReport
from shoal_wire.tuning import is_placed_on
from shoal_wire.update import FAILED, TERMINAL, UpdateState
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.messaging.models import RefusedMessages
from shoal_fleet.rollouts import approvals
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.approvals import Approver
from shoal_fleet.rollouts.machine import UNFINISHED, DeviceState, RolloutState
from shoal_fleet.rollouts.models import Rollout, RolloutDevice, RolloutWave
from shoal_fleet.telemetry import queries
from shoal_fleet.telemetry.models import AnswerRow
from shoal_fleet.telemetry.queries import Pace
from shoal_fleet.tuning import service as tuning
from shoal_fleet.tuning.models import TunedRow

WINDOW_S = 150.0
"""Over how long pace and latency are shown."""

ROLLOUTS = 8
"""How many rollouts are shown, the newest."""


class Tone(enum.Enum):
    """How a line should look at first sight."""

    GOOD = "good"
    BUSY = "busy"
    """Something is under way, or should be looked at."""
    BAD = "bad"
    OFF = "off"


class DeviceLine(NamedTuple):
    """One model of one device; a device without a model has one line too."""

    tone: Tone
    device: str
    device_id: str
    model: str
    release: str
    engine: str
    tuned: str
    """Why that engine, in words; empty where nothing serves."""
    state: str
    deaths: int
    """Of workers of the whole device, over `queries.DEATHS_WINDOW_S`."""
    pace: Pace | None
    """Of the whole device."""
    words: str
    """The last answer."""
    answered_at: float | None
    """When that came, in Unix seconds by the fleet's clock."""


class Findings(NamedTuple):
    """What is stored of a device beside its own report."""

    pace: Pace | None = None
    deaths: int = 0
    last: AnswerRow | None = None
    verdicts: Mapping[str, TunedRow] = {}
    """The newest by digest of the manifest."""


class AttemptLine(NamedTuple):
    """One device of a rollout."""

    tone: Tone
    device: str
    state: str
    reason: str


class RolloutLine(NamedTuple):
    """A rollout."""

    tone: Tone
    number: int
    release: str
    state: str
    started_by: str
    started_at: float
    reason: str
    """Why it is paused or ended, or what the gate of the wave that runs found last; may be empty."""
    attempts: Sequence[AttemptLine]
    may_approve: bool
    """Whether who looks may approve it now."""


class RefusedLine(NamedTuple):
    """Messages that the fleet refused."""

    device_id: str
    channel: str
    messages: int
    reason: str


class Status(NamedTuple):
    """All that the page shows."""

    now: float
    warnings: Sequence[str]
    """What somebody should look after."""
    devices: Sequence[DeviceLine]
    rollouts: Sequence[RolloutLine]
    refused: Sequence[RefusedLine]


def read_status(session: Session, *, now: float, viewer: Approver, warnings: Sequence[str] = ()) -> Status:
    """Look at the whole fleet, as `viewer` sees it."""
    paces = queries.measure_pace(session, now=now, window_s=WINDOW_S)
    answers = queries.find_last_answers(session)
    deaths = queries.count_deaths(session, now=now)
    verdicts: dict[str, dict[str, TunedRow]] = defaultdict(dict)
    for (device_id, manifest_sha256), verdict in tuning.find_newest(session).items():
        verdicts[device_id][manifest_sha256] = verdict
    lines: list[DeviceLine] = []
    for device in devices.list_devices(session):
        found = Findings(
            pace=paces.get(device.id),
            deaths=deaths.get(device.id, 0),
            last=answers.get(device.id),
            verdicts=verdicts[device.id],
        )
        lines += describe_device(device, devices.last_reported(device), found)
    refused = session.scalars(select(RefusedMessages).order_by(RefusedMessages.last_at.desc()).limit(20))
    return Status(
        now=now,
        warnings=warnings,
        devices=lines,
        rollouts=[
            describe_rollout(
                rollout,
                rollouts.list_attempts(session, rollout.id),
                waves=rollouts.list_waves(session, rollout.id),
                approvers=approvals.list_approvers(session, rollout),
                may_approve=approvals.may_approve(session, rollout, viewer),
            )
            for rollout in rollouts.list_rollouts(session, limit=ROLLOUTS)
        ],
        refused=[RefusedLine(row.device_id, row.channel, row.count, row.last_reason) for row in refused],
    )


def describe_device(device: Device, reported: Reported | None, found: Findings) -> list[DeviceLine]:
    """A line for each model that the device reports."""
    last = found.last
    slots: Sequence[SlotReport | None] = reported.slots if reported and reported.slots else [None]
    lines = []
    for slot in slots:
        tone, state = _describe_state(device, slot, None if reported is None else reported.update)
        is_of_slot = last is not None and (slot is None or last.release == slot.release)
        lines.append(
            DeviceLine(
                tone=tone,
                device=device.name,
                device_id=device.id,
                model=slot.release if slot else "",
                release=str(slot.current.version) if slot and slot.current else "",
                engine=_describe_engine(device, slot) if slot else "",
                tuned=_describe_tuning(slot, found.verdicts) if slot and slot.release != AGENT_RELEASE else "",
                state=state,
                deaths=found.deaths,
                pace=found.pace,
                words=last.words if last and is_of_slot else "",
                answered_at=last.received_at if last and is_of_slot else None,
            )
        )
    return lines


def _describe_wave(waves: Sequence[RolloutWave]) -> str:
    """Of the wave that a rollout is at."""
    current = next((wave for wave in waves if wave.finished_at is None), None)
    if current is None:
        return ""
    words = f": {current.verdict}" if current.verdict else ""
    return f"wave {current.number} of {len(waves)} is {current.state.value}{words}"


def _attempt_state(row: RolloutDevice, waves: Sequence[RolloutWave]) -> str:
    return f"{row.state.value} (wave {row.wave})" if waves else row.state.value


def describe_rollout(
    rollout: Rollout,
    attempts: Sequence[tuple[RolloutDevice, Device]],
    *,
    waves: Sequence[RolloutWave] = (),
    approvers: Sequence[str] = (),
    may_approve: bool = False,
) -> RolloutLine:
    """A line for the rollout, and one for each of its devices."""
    state = rollout.state.value
    if rollout.state is RolloutState.WAITING:
        state = f"{state} for approval ({len(approvers)} of {rollout.approvals_needed})"
    return RolloutLine(
        tone=_ROLLOUT_TONES[rollout.state],
        number=rollout.id,
        release=f"{rollout.release} {rollout.version}",
        state=state,
        started_by=rollout.created_by,
        started_at=rollout.created_at,
        reason=rollout.reason or (_describe_wave(waves) if rollout.state in UNFINISHED else ""),
        attempts=[
            AttemptLine(_ATTEMPT_TONES[row.state], device.name, _attempt_state(row, waves), row.reason)
            for row, device in attempts
        ],
        may_approve=may_approve,
    )


def _describe_state(device: Device, slot: SlotReport | None, update: UpdateReport | None) -> tuple[Tone, str]:
    if device.revoked_at is not None:
        return Tone.OFF, "revoked"
    if device.reported_counter == 0:
        return Tone.OFF, "enrolled, has not reported yet"
    if not device.is_online:
        return Tone.OFF, "offline"
    if update is not None and update.state not in TERMINAL and _concerns(update, slot):
        return Tone.BUSY, f"updating to {update.target.version}: {update.state.value}"
    if slot is None or slot.current is None:
        return Tone.OFF, "the package's own" if slot and slot.release == AGENT_RELEASE else "has no model"
    if slot.serving is None:
        return Tone.BAD, "does not serve"
    if update is not None and update.state in FAILED and _concerns(update, slot):
        return Tone.BUSY, f"serving; {_OUTCOMES[update.state]} {update.target.version}"
    return Tone.GOOD, "serving"


def _describe_engine(device: Device, slot: SlotReport) -> str:
    """What runs it; the agent is run by none, and says its own version."""
    if slot.release == AGENT_RELEASE:
        return f"version {device.agent_version}"
    return f"{slot.engine} {slot.engine_version}".strip()


def _describe_tuning(slot: SlotReport, verdicts: Mapping[str, TunedRow]) -> str:
    if slot.serving is None:
        return ""
    verdict = verdicts.get(slot.serving.manifest_sha256)
    if verdict is None:
        return "not tuned"
    choice = tuning.read_choice(verdict)
    is_there = is_placed_on(choice.device, placement=slot.placement)
    if (choice.engine, choice.variant) != (slot.engine, slot.variant) or not is_there:
        return "not as tuned"
    return "known choice" if verdict.is_confirmed else "tuned here"


def _concerns(update: UpdateReport, slot: SlotReport | None) -> bool:
    return slot is None or update.target.release == slot.release


_OUTCOMES = {UpdateState.FELL_BACK: "went back from", UpdateState.REFUSED: "refused"}

_ROLLOUT_TONES = {
    RolloutState.WAITING: Tone.BUSY,
    RolloutState.RUNNING: Tone.BUSY,
    RolloutState.PAUSED: Tone.BAD,
    RolloutState.SUCCEEDED: Tone.GOOD,
    RolloutState.FAILED: Tone.BAD,
    RolloutState.ABORTED: Tone.OFF,
}

_ATTEMPT_TONES = {
    DeviceState.WAITING: Tone.OFF,
    DeviceState.ASSIGNED: Tone.BUSY,
    DeviceState.UPDATING: Tone.BUSY,
    DeviceState.SUCCEEDED: Tone.GOOD,
    DeviceState.FAILED: Tone.BAD,
    DeviceState.ABORTED: Tone.OFF,
    DeviceState.ROLLED_BACK: Tone.OFF,
}
