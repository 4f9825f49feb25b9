"""What is kept of rollouts, and of what each device should run?

Times are Unix seconds by the fleet's clock.
"""

import enum

from sqlalchemy import BigInteger, Enum, ForeignKey, Index, LargeBinary, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column

from shoal_fleet.database import Base
from shoal_fleet.rollouts.machine import DeviceState, RolloutState, WaveState


def _state(kind: type[enum.Enum]) -> Enum:
    return Enum(kind, native_enum=False, length=16, values_callable=lambda states: [state.value for state in states])


class Rollout(Base):
    """A release on its way to a set of devices."""

    __tablename__ = "rollout"

    id: Mapped[int] = mapped_column(primary_key=True)
    release: Mapped[str] = mapped_column(String(63))
    version: Mapped[int]
    manifest_sha256: Mapped[str] = mapped_column(String(64))
    probation: Mapped[str] = mapped_column(Text)
    """Limits that the devices judge the release by, JSON as on the wire."""
    state: Mapped[RolloutState] = mapped_column(_state(RolloutState))
    created_by: Mapped[str] = mapped_column(String(300), server_default=text("''"))
    """Who started it, as the audit log names them; empty for rollouts of before."""
    person: Mapped[str] = mapped_column(String(300), server_default=text("''"))
    """Who answers for `created_by` (`access.roles.Known`)."""
    approvals_needed: Mapped[int] = mapped_column(server_default=text("0"))
    """Of people other than who started it, before any device is told."""
    plan: Mapped[str] = mapped_column(Text, server_default=text("''"))
    """Waves and gates, as `plan.write_plan` writes them; empty where all devices are told at once."""
    reason: Mapped[str] = mapped_column(Text, server_default=text("''"))
    """Why it is paused or ended, where a gate or a person says more than its state."""
    created_at: Mapped[float]
    finished_at: Mapped[float | None]


class RolloutDevice(Base):
    """How far one device of a rollout is."""

    __tablename__ = "rollout_device"
    __table_args__ = (Index(None, "device_id", "state"),)

    rollout_id: Mapped[int] = mapped_column(ForeignKey("rollout.id"), primary_key=True)
    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), primary_key=True)
    state: Mapped[DeviceState] = mapped_column(_state(DeviceState))
    reason: Mapped[str] = mapped_column(Text, default="")
    epoch: Mapped[int] = mapped_column(BigInteger)
    """With `generation`: the first desired document that named the release for this rollout; 0 while it waits."""
    generation: Mapped[int] = mapped_column(BigInteger)
    wave: Mapped[int] = mapped_column(server_default=text("1"))
    before_sha256: Mapped[str] = mapped_column(String(64), server_default=text("''"))
    """Manifest of what it ran when it was told; empty where it had nothing of the model, or isn't told yet."""
    assigned_at: Mapped[float]
    changed_at: Mapped[float]
    """When the state was last moved."""


class RolloutWave(Base):
    """How far one wave of a rollout is. A rollout without a plan has none."""

    __tablename__ = "rollout_wave"

    rollout_id: Mapped[int] = mapped_column(ForeignKey("rollout.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    """From 1."""
    state: Mapped[WaveState] = mapped_column(_state(WaveState))
    verdict: Mapped[str] = mapped_column(Text, default="")
    """What its gate found last, in words."""
    started_at: Mapped[float | None]
    soaking_at: Mapped[float | None]
    """Since when all its devices have ended."""
    finished_at: Mapped[float | None]


class RolloutApproval(Base):
    """That a person wants a rollout to begin."""

    __tablename__ = "rollout_approval"

    rollout_id: Mapped[int] = mapped_column(ForeignKey("rollout.id"), primary_key=True)
    actor: Mapped[str] = mapped_column(String(300), primary_key=True)
    person: Mapped[str] = mapped_column(String(300), server_default=text("''"))
    """Who answers for `actor`."""
    content_sha256: Mapped[str] = mapped_column(String(64))
    """Of what they approved (`approvals.content_digest`)."""
    approved_at: Mapped[float]


class ApprovalPolicy(Base):
    """How many approvals a rollout needs in a project, or in every one; without a row, none.

    One that is lower is a proposal until as many people have approved it as the present one asks for.
    """

    __tablename__ = "approval_policy"

    project: Mapped[str] = mapped_column(String(63), primary_key=True)
    """A project, or `roles.EVERYWHERE`."""
    approvals: Mapped[int]
    proposed: Mapped[int | None]
    """What it is to be; None where nothing is proposed. What follows is of the proposal."""
    proposed_by: Mapped[str] = mapped_column(String(300), server_default=text("''"))
    proposed_person: Mapped[str] = mapped_column(String(300), server_default=text("''"))


class PolicyApproval(Base):
    """That a person wants the policy that is proposed."""

    __tablename__ = "policy_approval"

    project: Mapped[str] = mapped_column(ForeignKey("approval_policy.project"), primary_key=True)
    person: Mapped[str] = mapped_column(String(300), primary_key=True)
    actor: Mapped[str] = mapped_column(String(300))
    approved_at: Mapped[float]


class DesiredRow(Base):
    """The newest desired document of a device."""

    __tablename__ = "desired"

    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), primary_key=True)
    epoch: Mapped[int] = mapped_column(BigInteger)
    generation: Mapped[int] = mapped_column(BigInteger)
    document: Mapped[bytes] = mapped_column(LargeBinary)
    """JSON; signed each time it is published, so that a new assignment key is used at once."""
    published_at: Mapped[float | None]
    """When the broker confirmed it; None until then."""


class GrantCounter(Base):
    """The counter of the last grant that was made for a device and a file."""

    __tablename__ = "grant_counter"

    device_id: Mapped[str] = mapped_column(ForeignKey("device.id"), primary_key=True)
    ciphertext_sha256: Mapped[str] = mapped_column(String(64), primary_key=True)
    counter: Mapped[int] = mapped_column(BigInteger)
