"""What does the API say of a rollout?"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

import msgspec
from pydantic import BaseModel, Field
from shoal_wire.messages import Reported

from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.rollouts.models import Rollout, RolloutDevice, RolloutWave
from shoal_fleet.rollouts.plan import Plan, read_plan


class AttemptView(BaseModel):
    """How far one device of a rollout is. Times are Unix seconds by the fleet's clock."""

    id: str
    name: str
    state: str
    reason: str
    wave: int
    update: str
    """The step that the device itself reports of this update; empty where it reports none."""
    epoch: int
    generation: int
    """With `epoch`: the desired document that first named the release."""
    assigned_at: float
    changed_at: float

    @classmethod
    def of(cls, row: RolloutDevice, device: Device) -> Self:
        """View of a row."""
        step, reason = _step(row, devices.last_reported(device))
        return cls(
            id=device.id,
            name=device.name,
            state=row.state.value,
            reason=row.reason or reason,
            wave=row.wave,
            update=step,
            epoch=row.epoch,
            generation=row.generation,
            assigned_at=row.assigned_at,
            changed_at=row.changed_at,
        )


class WaveView(BaseModel):
    """A wave of a rollout. Times are Unix seconds by the fleet's clock."""

    number: int
    state: str
    verdict: str = Field(description="what its gate found last, in words with numbers")
    counts: dict[str, int] = Field(description="devices by state")
    soak_s: float
    started_at: float | None
    soaking_at: float | None = Field(description="since when all its devices have ended")
    finished_at: float | None

    @classmethod
    def of(cls, wave: RolloutWave, plan: Plan, rows: Iterable[RolloutDevice]) -> Self:
        """View of a row, with those of the rollout's devices."""
        return cls(
            number=wave.number,
            state=wave.state.value,
            verdict=wave.verdict,
            counts=dict(Counter(row.state.value for row in rows if row.wave == wave.number)),
            soak_s=plan.waves[wave.number - 1].soak_s,
            started_at=wave.started_at,
            soaking_at=wave.soaking_at,
            finished_at=wave.finished_at,
        )


class PreviewView(BaseModel):
    """Which devices a rollout would go to."""

    waves: Sequence[Sequence[str]] = Field(description="names of the devices of each wave; one where there are none")


class RolloutView(BaseModel):
    """A rollout."""

    id: int
    release: str
    version: int
    manifest_sha256: str
    state: str
    reason: str = Field(description="why it is paused or ended, where that says more than its state")
    counts: dict[str, int] = Field(description="devices by state")
    created_by: str = Field(description="empty for rollouts that were started before this was kept")
    approvals_needed: int
    approved_by: list[str]
    created_at: float
    finished_at: float | None

    @classmethod
    def of(cls, rollout: Rollout, rows: Iterable[RolloutDevice], *, approvers: Sequence[str]) -> Self:
        """View of a row, with those of its devices."""
        return cls(**_fields(rollout, rows, approvers))


class RolloutDetail(RolloutView):
    """A rollout, device by device."""

    probation: dict[str, Any]
    plan: dict[str, Any] | None = Field(description="target, waves and gates; null where all were told at once")
    waves: list[WaveView]
    devices: list[AttemptView]

    @classmethod
    def of_attempts(
        cls,
        rollout: Rollout,
        attempts: list[tuple[RolloutDevice, Device]],
        *,
        waves: Sequence[RolloutWave],
        approvers: Sequence[str],
    ) -> Self:
        """View of a row, with those of its waves and devices."""
        rows, plan = [row for row, _ in attempts], read_plan(rollout.plan)
        return cls(
            **_fields(rollout, rows, approvers),
            probation=msgspec.json.decode(rollout.probation),
            plan=msgspec.to_builtins(plan) if rollout.plan else None,
            waves=[WaveView.of(wave, plan, rows) for wave in waves],
            devices=[AttemptView.of(row, device) for row, device in attempts],
        )


def _fields(rollout: Rollout, rows: Iterable[RolloutDevice], approvers: Sequence[str]) -> dict[str, Any]:
    return {
        "id": rollout.id,
        "release": rollout.release,
        "version": rollout.version,
        "manifest_sha256": rollout.manifest_sha256,
        "state": rollout.state.value,
        "reason": rollout.reason,
        "counts": dict(Counter(row.state.value for row in rows)),
        "created_by": rollout.created_by,
        "approvals_needed": rollout.approvals_needed,
        "approved_by": list(approvers),
        "created_at": rollout.created_at,
        "finished_at": rollout.finished_at,
    }


def _step(row: RolloutDevice, reported: Reported | None) -> tuple[str, str]:
    update = None if reported is None else reported.update
    if update is None or (update.epoch, update.generation) != (row.epoch, row.generation):
        return "", ""
    return update.state.value, update.reason
