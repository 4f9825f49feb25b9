"""How does a device's report move a rollout?

Rules only. A device that was assigned is moved by what it reports of itself and by nothing else; the exceptions are an
abort and a roll back. Until enough people have approved a rollout, and until its wave begins, a device waits and knows
nothing of it.

    waiting ──► assigned ──► updating ──► succeeded ──► rolled back   what it ran before was assigned again
       │            │            │            ├───────► failed        it runs another release again
       │            │            ├──────────────────► failed        it went back or refused, and says why
       └────────────┴────────────┴──────────────────► aborted       an operator stopped it, or a newer rollout
                                                                      took its place

A rollout in waves, and each of its waves:

    waiting ──► running ◄──► paused      waiting ──► running ──► soaking ──► passed
       │           │            │                        └───────────┴─────► stopped
       └───────────┴────────────┴──► succeeded, failed, aborted
"""

import enum
from collections.abc import Iterable
from typing import NamedTuple

from shoal_wire.messages import ReleaseReference, Reported, SlotReport, UpdateReport
from shoal_wire.update import FAILED, TERMINAL, UpdateState

Order = tuple[int, int]
"""Epoch and generation of a desired document."""

FIRST_ORDER: Order = (1, 0)
"""What a fleet without a past counts from."""

LAST_GENERATION = 2**53
"""A device that reports a higher generation gets the next epoch: the numbers mustn't run out."""


class DeviceState(enum.Enum):
    """How far one device of a rollout is."""

    WAITING = "waiting"
    ASSIGNED = "assigned"
    UPDATING = "updating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"
    ROLLED_BACK = "rolled back"


class RolloutState(enum.Enum):
    """How far a whole rollout is."""

    WAITING = "waiting"
    """For other people to approve it."""
    RUNNING = "running"
    PAUSED = "paused"
    """No device is told any more; those that were go on."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ABORTED = "aborted"


class WaveState(enum.Enum):
    """How far one wave of a rollout is."""

    WAITING = "waiting"
    RUNNING = "running"
    SOAKING = "soaking"
    """All its devices have ended; they run the release for a while before the next wave begins."""
    PASSED = "passed"
    STOPPED = "stopped"
    """Its gate didn't hold."""


MOVES: dict[DeviceState, frozenset[DeviceState]] = {
    DeviceState.WAITING: frozenset({DeviceState.ASSIGNED, DeviceState.ABORTED}),
    DeviceState.ASSIGNED: frozenset(
        {DeviceState.UPDATING, DeviceState.SUCCEEDED, DeviceState.FAILED, DeviceState.ABORTED}
    ),
    DeviceState.UPDATING: frozenset({DeviceState.SUCCEEDED, DeviceState.FAILED, DeviceState.ABORTED}),
    DeviceState.SUCCEEDED: frozenset({DeviceState.FAILED, DeviceState.ROLLED_BACK}),
    DeviceState.FAILED: frozenset(),
    DeviceState.ABORTED: frozenset(),
    DeviceState.ROLLED_BACK: frozenset(),
}
"""To which states each state may be moved."""

OPEN = frozenset({DeviceState.WAITING, DeviceState.ASSIGNED, DeviceState.UPDATING})
"""States of a device that isn't done yet."""

UNDER_WAY = OPEN - {DeviceState.WAITING}
"""States of a device that has been told of the rollout."""

UNFINISHED = frozenset({RolloutState.WAITING, RolloutState.RUNNING, RolloutState.PAUSED})
"""States of a rollout that can still be stopped."""


class Attempt(NamedTuple):
    """What a rollout asked of one device."""

    target: ReleaseReference
    order: Order
    """Of the first desired document that named the target for this rollout. Later documents repeat it."""


class Verdict(NamedTuple):
    """Where a device is, by its own report."""

    state: DeviceState
    reason: str = ""


def judge(attempt: Attempt, reported: Reported) -> Verdict:
    """Which state a report puts a device in, whatever state it was in before."""
    slot, update = _slot_of(reported, attempt.target.release), reported.update
    has_target = slot is not None and slot.current is not None and _is_same(slot.current, attempt.target)
    if update is not None and _is_of(update, attempt):
        if update.state in FAILED:
            return Verdict(DeviceState.FAILED, update.reason or f"the device reports {update.state.value}")
        if update.state is UpdateState.COMMITTED and has_target:
            return Verdict(DeviceState.SUCCEEDED)
        return Verdict(DeviceState.UPDATING, update.reason)
    if slot is not None and _has_refused(slot, attempt, epoch=reported.epoch):
        return Verdict(DeviceState.FAILED, "the device tried this release and will not try it again")
    has_accepted = (reported.epoch, reported.generation) >= attempt.order
    if has_accepted and has_target and _is_settled(update, release=attempt.target.release):
        return Verdict(DeviceState.SUCCEEDED, "the device runs this release already")
    return Verdict(DeviceState.ASSIGNED)


def may_move(old: DeviceState, new: DeviceState) -> bool:
    """Whether a device may be moved from one state to the other."""
    return new in MOVES[old]


def sum_up(states: Iterable[DeviceState]) -> RolloutState:
    """State of a rollout, from those of its devices."""
    found = set(states)
    if DeviceState.WAITING in found:
        return RolloutState.WAITING
    if found & OPEN:
        return RolloutState.RUNNING
    if DeviceState.FAILED in found:
        return RolloutState.FAILED
    return RolloutState.ABORTED if found & {DeviceState.ABORTED, DeviceState.ROLLED_BACK} else RolloutState.SUCCEEDED


def runs_another(attempt: Attempt, reported: Reported) -> str | None:
    """What a device that succeeded runs in place of the release, by a report of after it was told; None: the release.

    While an update of the model is under way nothing is settled yet.
    """
    slot = _slot_of(reported, attempt.target.release)
    if (reported.epoch, reported.generation) < attempt.order or not _is_settled(
        reported.update, release=attempt.target.release
    ):
        return None
    if slot is None or slot.current is None:
        return "nothing"
    return None if _is_same(slot.current, attempt.target) else f"{slot.current.release} {slot.current.version}"


def kept_without(reported: Reported, *, target: ReleaseReference) -> ReleaseReference | None:
    """What a device should run when it is to have no more to do with `target`; None where it has nothing else.

    What it reports as current; but where that is the target itself, still on probation or of unknown outcome, the one
    before.
    """
    slot = _slot_of(reported, target.release)
    if slot is None:
        return None
    update = reported.update
    is_unproven = (
        slot.current is not None
        and _is_same(slot.current, target)
        and update is not None
        and _is_same(update.target, target)
        and update.state is not UpdateState.COMMITTED
    )
    return slot.previous if is_unproven else slot.current


def next_order(*, issued: Order | None, reported: Order | None) -> Order:
    """Epoch and generation of a device's next desired document: above what was issued and what it has seen.

    The fleet may have been restored from an old copy, so the device may have seen more than the fleet remembers.
    """
    epoch, generation = max(issued or FIRST_ORDER, reported or FIRST_ORDER, FIRST_ORDER)
    return (epoch, generation + 1) if generation < LAST_GENERATION else (epoch + 1, 1)


def _slot_of(reported: Reported, release: str) -> SlotReport | None:
    return next((slot for slot in reported.slots if slot.release == release), None)


def _is_same(one: ReleaseReference, other: ReleaseReference) -> bool:
    return one.manifest_sha256 == other.manifest_sha256


def _is_of(update: UpdateReport, attempt: Attempt) -> bool:
    return (update.epoch, update.generation) >= attempt.order and _is_same(update.target, attempt.target)


def _is_settled(update: UpdateReport | None, *, release: str) -> bool:
    """Whether no update of that model is under way, so that its slot's current release was committed."""
    return update is None or update.state in TERMINAL or update.target.release != release


def _has_refused(slot: SlotReport, attempt: Attempt, *, epoch: int) -> bool:
    """Whether the slot's list of refused generations has one of this attempt.

    The report of the failure itself may never have come: each report replaces the one before.
    """
    return epoch == attempt.order[0] and any(generation >= attempt.order[1] for generation in slot.refused)
