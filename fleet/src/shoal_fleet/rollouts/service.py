"""How does a rollout start, how do reports move it, and how does it end?

It starts as one that waits; without a policy that asks for approvals its devices, or those of its first wave, are told
in the same transaction. What follows in waves is `engine.py`'s.

A state is moved by one UPDATE whose WHERE names the old state: of two who move it, one does. All else that a move
brings about is in the same transaction. What a report says is always judged from the stored one, so a report that comes
twice, or after a restart, changes nothing.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from shoal_wire.encoding import encode
from shoal_wire.errors import WireError
from shoal_wire.messages import ProbationLimits, ReleaseReference, Reported
from shoal_wire.update import UpdateState
from sqlalchemy import CursorResult, select, update
from sqlalchemy.orm import Session

from shoal_fleet.access.projects import project_of_release
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Conflict, FleetError, NotFound
from shoal_fleet.kek.vault import Vault
from shoal_fleet.releases import service as releases
from shoal_fleet.releases.models import Release
from shoal_fleet.releases.revocation import check_assignable
from shoal_fleet.rollouts.assignment import assign, open_release
from shoal_fleet.rollouts.choosing import check_agent_fits, choose_devices
from shoal_fleet.rollouts.desired import write_desired
from shoal_fleet.rollouts.machine import (
    OPEN,
    UNDER_WAY,
    UNFINISHED,
    Attempt,
    DeviceState,
    RolloutState,
    Verdict,
    WaveState,
    judge,
    kept_without,
    may_move,
    runs_another,
    sum_up,
)
from shoal_fleet.rollouts.models import Rollout, RolloutDevice, RolloutWave
from shoal_fleet.rollouts.plan import Plan, write_plan
from shoal_fleet.rollouts.policy import check_person, find_approvals_needed
from shoal_fleet.rollouts.wave_devices import divide_into_waves

NAMED_DEVICES = 50
"""How many devices an entry of the audit log names."""

REVOKED = "the device was revoked"

_log = logging.getLogger(__name__)


class RolloutStart(NamedTuple):
    """What an operator asks for."""

    release: str
    version: int
    devices: Sequence[str]
    """Ids or names, or ALL alone. Empty where the plan has an expression for them."""
    probation: ProbationLimits
    plan: Plan = Plan()


def start(
    session: Session, wanted: RolloutStart, *, by: str, vault: Vault, now: float, person: str | None = None
) -> Rollout:
    """Assign a release to devices, or have it wait until as many others than `by` approved it as the policy wants.

    `person` answers for `by`; None where that is the same.

    Desired documents of devices that are assigned wait to be published when this returns. A device that is still under
    way to another version of the same model is aborted there.

    Raises:
        NotFound: no such release, or no such device.
        Refused: a release below the floor of its model, no device, a revoked one, one that would be assigned more than
            the broker takes, or an expression or waves that mean nothing.
        WrongRole: it needs approvals, and it isn't known who answers for `by`.
    """
    with writing(session):
        release = releases.find_release(session, name=wanted.release, version=wanted.version)
        check_assignable(session, release)
        project = project_of_release(session, release.name)
        chosen = choose_devices(session, wanted.devices, target=wanted.plan.target, project=project, now=now)
        check_agent_fits(session, release, chosen)
        waves = divide_into_waves(session, chosen, plan=wanted.plan, seed=release.manifest_sha256, now=now)
        needed = find_approvals_needed(session, project)
        rollout = Rollout(
            release=release.name,
            version=release.version,
            manifest_sha256=release.manifest_sha256,
            probation=encode(wanted.probation).decode(),
            state=RolloutState.WAITING,
            created_by=by,
            person=(by if person is None else person) if needed == 0 else check_person(by, person),
            approvals_needed=needed,
            plan=write_plan(wanted.plan),
            created_at=now,
            finished_at=None,
        )
        session.add(rollout)
        session.flush()
        for device in chosen:
            add_device(session, rollout, device, wave=waves.get(device.id, 1), now=now)
        session.add_all(
            RolloutWave(rollout_id=rollout.id, number=number, state=WaveState.WAITING, verdict="")
            for number in range(1, len(wanted.plan.waves) + 1)
        )
        detail = {"devices": [device.id for device in chosen[:NAMED_DEVICES]], "approvals": rollout.approvals_needed}
        if rollout.plan:
            detail["plan"] = msgspec.json.decode(rollout.plan)
        record(session, rollout, "created", by=by, detail=detail, now=now)
        if rollout.approvals_needed == 0:
            launch(session, rollout, by=by, vault=vault, now=now)
    return rollout


def launch(session: Session, rollout: Rollout, *, by: str, vault: Vault, now: float) -> None:
    """Assign the devices of a rollout that waits, or those of its first wave, in the caller's transaction.

    Raises:
        Refused: the release is below the floor of its model by now, or a device would be assigned more than the broker
            takes.
    """
    first = session.get(RolloutWave, (rollout.id, 1))
    newer = tell(session, rollout, wave=None if first is None else 1, vault=vault, now=now)
    if first is not None:
        first.state, first.started_at = WaveState.RUNNING, now
    rollout.state = RolloutState.RUNNING
    session.flush()
    record(session, rollout, "rolled_back" if newer else "started", by=by, detail=_named(newer), now=now)
    _finish(session, rollout, now=now)


def tell(session: Session, rollout: Rollout, *, wave: int | None, vault: Vault, now: float) -> Sequence[str]:
    """Assign the release to the devices of a wave that wait, or to all that do; in the caller's transaction.

    Returns the ids of those that run a newer one. Raises as `launch`.
    """
    release = releases.find_release(session, name=rollout.release, version=rollout.version)
    check_assignable(session, release)
    opened = open_release(session, release, vault=vault)
    probation = probation_of(rollout)
    newer = []
    for row, device in list_attempts(session, rollout.id):
        if row.state is not DeviceState.WAITING or wave not in (None, row.wave):
            continue
        if device.revoked_at is not None:
            move(session, row, Verdict(DeviceState.ABORTED, REVOKED), now=now)
            continue
        _supersede(session, device, by=rollout, now=now)
        newer += [device.id] if _runs_newer(device, rollout) else []
        assignment = assign(session, opened, device=device, probation=probation)
        row.before_sha256 = _runs_now(device, rollout)
        row.epoch, row.generation = write_desired(
            session, device=device, release=release.name, assignment=assignment, now=now
        )
        row.assigned_at = now
        session.flush()
        move(session, row, Verdict(DeviceState.ASSIGNED), now=now)
    return newer


def follow(session: Session, *, device: Device, vault: Vault, now: float) -> None:
    """Move the rollouts of a device to where its last report puts them, in the caller's transaction.

    One that failed is followed by a new desired document, which names what the device went back to.
    """
    reported = devices.last_reported(device)
    if reported is None:
        return
    for row, rollout in _open_attempts(session, device_id=device.id):
        if row.state not in UNDER_WAY:
            continue
        verdict = judge(Attempt(_reference(rollout), (row.epoch, row.generation)), reported)
        if not move(session, row, verdict, now=now):
            continue
        if verdict.state is DeviceState.FAILED:
            _record_failure(session, device, rollout, reported, reason=verdict.reason, now=now)
            _take_back(session, device, reported, rollout, vault=vault, now=now)
        _finish(session, rollout, now=now)
    _look_again(session, device, reported, now=now)


def abort(session: Session, rollout_id: int, *, by: str, vault: Vault, now: float) -> Rollout:
    """Stop a rollout: devices that haven't finished are told to keep, or to go back to, what they ran before.

    Raises:
        NotFound: no such rollout.
        Conflict: it has ended.
    """
    with writing(session):
        rollout = find_rollout(session, rollout_id)
        if not end(session, rollout, RolloutState.ABORTED, now=now):
            raise Conflict(f"rollout {rollout_id}: has {rollout.state.value} already, expected it to be running")
        record(session, rollout, "aborted", by=by, detail={}, now=now)
        stop_open(session, rollout, reason="stopped by an operator", vault=vault, now=now)
    return rollout


def stop_open(session: Session, rollout: Rollout, *, reason: str, vault: Vault, now: float) -> None:
    """Tell the devices that haven't ended to keep, or to go back to, what they ran; in the caller's transaction."""
    rows = session.scalars(
        select(RolloutDevice).where(RolloutDevice.rollout_id == rollout.id, RolloutDevice.state.in_(OPEN))
    ).all()
    for row in rows:
        was_told = row.state in UNDER_WAY
        if not move(session, row, Verdict(DeviceState.ABORTED, reason), now=now):
            continue
        device = devices.find_device(session, row.device_id)
        if was_told and device.revoked_at is None:
            _take_back(session, device, devices.last_reported(device), rollout, vault=vault, now=now)


def drop_revoked(session: Session, *, now: float) -> None:
    """End the attempts of devices that were revoked under way: they will report no more."""
    rows = session.execute(
        select(RolloutDevice, Rollout)
        .join(Rollout, Rollout.id == RolloutDevice.rollout_id)
        .join(Device, Device.id == RolloutDevice.device_id)
        .where(RolloutDevice.state.in_(OPEN), Device.revoked_at.is_not(None))
    ).all()
    session.rollback()
    if not rows:
        return
    with writing(session):
        for row, rollout in rows:
            move(session, row, Verdict(DeviceState.ABORTED, REVOKED), now=now)
            _finish(session, rollout, now=now)


def list_rollouts(session: Session, *, limit: int) -> Sequence[Rollout]:
    """The newest rollouts first."""
    return session.scalars(select(Rollout).order_by(Rollout.id.desc()).limit(limit)).all()


def find_rollout(session: Session, rollout_id: int) -> Rollout:
    """The rollout of that number.

    Raises:
        NotFound: there is none.
    """
    rollout = session.get(Rollout, rollout_id)
    if rollout is None:
        raise NotFound(f"rollout {rollout_id}: there is none of that number")
    return rollout


def list_attempts(session: Session, rollout_id: int) -> list[tuple[RolloutDevice, Device]]:
    """How far each device of a rollout is, by the device's name."""
    rows = session.execute(
        select(RolloutDevice, Device)
        .join(Device, Device.id == RolloutDevice.device_id)
        .where(RolloutDevice.rollout_id == rollout_id)
        .order_by(Device.name, Device.id)
    )
    return [(row, device) for row, device in rows]


def list_waves(session: Session, rollout_id: int) -> Sequence[RolloutWave]:
    """Its waves, the first one first; none where all devices were told at once."""
    wanted = select(RolloutWave).where(RolloutWave.rollout_id == rollout_id).order_by(RolloutWave.number)
    return session.scalars(wanted).all()


def record(
    session: Session, rollout: Rollout, event: str, *, by: str, detail: Mapping[str, object], now: float
) -> None:
    """Add `rollout.<event>` to the audit log, in the caller's transaction."""
    named = {"release": rollout.release, "version": rollout.version, **detail}
    subject = f"rollout {rollout.id}"
    audit.append(session, actor=by, action=f"rollout.{event}", subject=subject, detail=named, now=now)


def add_device(session: Session, rollout: Rollout, device: Device, *, wave: int, now: float) -> None:
    """Have a device wait in a wave, in the caller's transaction."""
    session.add(
        RolloutDevice(
            rollout_id=rollout.id,
            device_id=device.id,
            state=DeviceState.WAITING,
            epoch=0,
            generation=0,
            wave=wave,
            before_sha256="",
            assigned_at=now,
            changed_at=now,
        )
    )


def _supersede(session: Session, device: Device, *, by: Rollout, now: float) -> None:
    for row, rollout in _open_attempts(session, device_id=device.id):
        is_newer = row.state is DeviceState.WAITING and rollout.id > by.id
        if rollout.release == by.release and rollout.id != by.id and not is_newer:
            move(session, row, Verdict(DeviceState.ABORTED, f"rollout {by.id} took its place"), now=now)
            _finish(session, rollout, now=now)


def _look_again(session: Session, device: Device, reported: Reported, *, now: float) -> None:
    """Move a device that had succeeded and runs something else again, if nobody had it do so since."""
    newest = (
        select(RolloutDevice, Rollout)
        .join(Rollout, Rollout.id == RolloutDevice.rollout_id)
        .where(RolloutDevice.device_id == device.id)
        .order_by(RolloutDevice.rollout_id.desc())
    )
    seen: set[str] = set()
    for row, rollout in session.execute(newest):
        if rollout.release in seen:
            continue
        seen.add(rollout.release)
        if row.state is DeviceState.SUCCEEDED:
            other = runs_another(Attempt(_reference(rollout), (row.epoch, row.generation)), reported)
            if other is not None and move(
                session, row, Verdict(DeviceState.FAILED, f"it succeeded, and runs {other} since"), now=now
            ):
                detail = {"release": rollout.release, "version": rollout.version, "runs": other}
                record(session, rollout, "undone", by=f"device:{device.id}", detail=detail, now=now)


def _open_attempts(session: Session, *, device_id: str) -> list[tuple[RolloutDevice, Rollout]]:
    rows = session.execute(
        select(RolloutDevice, Rollout)
        .join(Rollout, Rollout.id == RolloutDevice.rollout_id)
        .where(RolloutDevice.device_id == device_id, RolloutDevice.state.in_(OPEN))
        .order_by(RolloutDevice.rollout_id)
    )
    return [(row, rollout) for row, rollout in rows]


def move(session: Session, row: RolloutDevice, verdict: Verdict, *, now: float) -> bool:
    """Move a device to another state; False where the rules don't allow it or somebody else has moved it."""
    if not may_move(row.state, verdict.state):
        return False
    moved = session.execute(
        update(RolloutDevice)
        .where(
            RolloutDevice.rollout_id == row.rollout_id,
            RolloutDevice.device_id == row.device_id,
            RolloutDevice.state == row.state,
        )
        .values(state=verdict.state, reason=verdict.reason, changed_at=now)
    )
    return _changed_one(moved)


def _finish(session: Session, rollout: Rollout, *, now: float) -> None:
    """End a rollout of which nothing is open. One in waves ends with the last of them, which its gate judges."""
    if session.get(RolloutWave, (rollout.id, 1)) is not None:
        return
    states = session.scalars(select(RolloutDevice.state).where(RolloutDevice.rollout_id == rollout.id)).all()
    state = sum_up(states)
    if state not in UNFINISHED and end(session, rollout, state, now=now):
        record(session, rollout, "ended", by=audit.FLEET, detail={"state": state.value}, now=now)


def end(session: Session, rollout: Rollout, state: RolloutState, *, now: float) -> bool:
    """End a rollout, with the wave that it is at; False where somebody else has."""
    session.execute(
        update(RolloutWave)
        .where(RolloutWave.rollout_id == rollout.id, RolloutWave.state.in_({WaveState.RUNNING, WaveState.SOAKING}))
        .values(state=WaveState.STOPPED, finished_at=now)
    )
    ended = session.execute(
        update(Rollout)
        .where(Rollout.id == rollout.id, Rollout.state.in_(UNFINISHED))
        .values(state=state, finished_at=now)
    )
    return _changed_one(ended)


def _take_back(
    session: Session,
    device: Device,
    reported: Reported | None,
    rollout: Rollout,
    *,
    vault: Vault,
    now: float,
) -> None:
    """Write a desired document that names what the device is to keep instead of the rollout's release."""
    kept = None if reported is None else kept_without(reported, target=_reference(rollout))
    assignment = None
    if kept is not None:
        try:
            release = _find_by_digest(session, kept)
            opened = open_release(session, release, vault=vault)
            assignment = assign(session, opened, device=device, probation=probation_of(rollout))
        except (FleetError, WireError) as error:
            # Without an assignment the device keeps it all the same; its report must not be lost over this.
            _log.error("device %s keeps %s %d unassigned: %s", device.id, kept.release, kept.version, error)
    write_desired(session, device=device, release=rollout.release, assignment=assignment, now=now)


def _record_failure(
    session: Session, device: Device, rollout: Rollout, reported: Reported, *, reason: str, now: float
) -> None:
    """What the device did by itself, told apart from what an operator has it do."""
    update = reported.update
    has_fallen_back = (
        update is not None
        and update.state is UpdateState.FELL_BACK
        and update.target.manifest_sha256 == rollout.manifest_sha256
    )
    audit.append(
        session,
        actor=f"device:{device.id}",
        action="device.fell_back" if has_fallen_back else "device.update_failed",
        subject=device.id,
        detail={"rollout": rollout.id, "release": rollout.release, "version": rollout.version, "reason": reason[:500]},
        now=now,
    )


def _runs_now(device: Device, rollout: Rollout) -> str:
    """Manifest of what the device has of the model; empty where that is nothing, or the release itself."""
    reported = devices.last_reported(device)
    slots = () if reported is None else reported.slots
    current = next((slot.current for slot in slots if slot.release == rollout.release), None)
    return "" if current is None or current.manifest_sha256 == rollout.manifest_sha256 else current.manifest_sha256


def _runs_newer(device: Device, rollout: Rollout) -> bool:
    reported = devices.last_reported(device)
    slots = () if reported is None else reported.slots
    return any(
        slot.release == rollout.release and slot.current is not None and slot.current.version > rollout.version
        for slot in slots
    )


def _named(back: Sequence[str]) -> Mapping[str, object]:
    return {"devices": back[:NAMED_DEVICES]} if back else {}


def _find_by_digest(session: Session, reference: ReleaseReference) -> Release:
    release = session.scalar(select(Release).where(Release.manifest_sha256 == reference.manifest_sha256))
    if release is None:
        raise NotFound(f"release {reference.release} {reference.version}: not of this fleet")
    return release


def _reference(rollout: Rollout) -> ReleaseReference:
    return ReleaseReference(rollout.release, rollout.version, rollout.manifest_sha256)


def probation_of(rollout: Rollout) -> ProbationLimits:
    """Limits that its devices judge the release by."""
    return msgspec.json.decode(rollout.probation, type=ProbationLimits)


def _changed_one(result: object) -> bool:
    assert isinstance(result, CursorResult)
    return result.rowcount == 1
