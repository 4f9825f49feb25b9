"""What does the API say of a rollout?"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Self

import msgspec
from pydantic import BaseModel, Field
from shoal_wire.messages import Reported

from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.rollouts.models import Rollout, RolloutDevice


class AttemptView(BaseModel):
    """How far one device of a rollout is. Times are Unix seconds by the fleet's clock."""

    id: str
    name: str
    state: str
    reason: str
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
            update=step,
            epoch=row.epoch,
            generation=row.generation,
            assigned_at=row.assigned_at,
            changed_at=row.changed_at,
        )


class RolloutView(BaseModel):
    """A rollout."""

    id: int
    release: str
    version: int
    manifest_sha256: str
    state: str
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
    devices: list[AttemptView]

    @classmethod
    def of_attempts(
        cls, rollout: Rollout, attempts: list[tuple[RolloutDevice, Device]], *, approvers: Sequence[str]
    ) -> Self:
        """View of a row, with those of its devices."""
        return cls(
            **_fields(rollout, [row for row, _ in attempts], approvers),
            probation=msgspec.json.decode(rollout.probation),
            devices=[AttemptView.of(row, device) for row, device in attempts],
        )


def _fields(rollout: Rollout, rows: Iterable[RolloutDevice], approvers: Sequence[str]) -> dict[str, Any]:
    return {
        "id": rollout.id,
        "release": rollout.release,
        "version": rollout.version,
        "manifest_sha256": rollout.manifest_sha256,
        "state": rollout.state.value,
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
