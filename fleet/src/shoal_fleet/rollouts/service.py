"""How does a rollout start, how do reports move it, and how does it end?

A state is moved by one UPDATE whose WHERE names the old state: of two who move it, one does. All else that a move
brings about is in the same transaction. What a report says is always judged from the stored one, so a report that comes
twice, or after a restart, changes nothing.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from shoal_wire.encoding import encode
from shoal_wire.errors import WireError
from shoal_wire.messages import ProbationLimits, ReleaseReference, Reported
from sqlalchemy import CursorResult, select, update
from sqlalchemy.orm import Session

from shoal_fleet.database import writing
from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.errors import Conflict, FleetError, NotFound, Refused
from shoal_fleet.releases import service as releases
from shoal_fleet.releases.models import Release
from shoal_fleet.rollouts.assignment import assign, open_release
from shoal_fleet.rollouts.desired import write_desired
from shoal_fleet.rollouts.machine import (
    OPEN,
    Attempt,
    DeviceState,
    RolloutState,
    Verdict,
    judge,
    kept_without,
    may_move,
    sum_up,
)
from shoal_fleet.rollouts.models import Rollout, RolloutDevice

ALL = "all"
"""Stands for every device that isn't revoked."""

_log = logging.getLogger(__name__)


class RolloutStart(NamedTuple):
    """What an operator asks for."""

    release: str
    version: int
    devices: Sequence[str]
    """Ids or names, or ALL alone."""
    probation: ProbationLimits


def start(session: Session, wanted: RolloutStart, *, fleet_key: X25519PrivateKey, now: float) -> Rollout:
    """Assign a release to devices. Their desired documents wait to be published when this returns.

    A device that is still under way to another version of the same model is aborted there.

    Raises:
        NotFound: no such release, or no such device.
        Refused: a release below the floor of its model, no device, a revoked one, or one that would be assigned more
            than the broker takes.
    """
    with writing(session):
        release = releases.find_release(session, name=wanted.release, version=wanted.version)
        _check_floor(session, release)
        chosen = _choose_devices(session, wanted.devices)
        opened = open_release(session, release, fleet_key=fleet_key)
        rollout = Rollout(
            release=release.name,
            version=release.version,
            manifest_sha256=release.manifest_sha256,
            probation=encode(wanted.probation).decode(),
            state=RolloutState.RUNNING,
            created_at=now,
            finished_at=None,
        )
        session.add(rollout)
        session.flush()
        for device in chosen:
            _supersede(session, device, by=rollout, now=now)
            assignment = assign(session, opened, device=device, probation=wanted.probation)
            epoch, generation = write_desired(
                session, device=device, release=release.name, assignment=assignment, now=now
            )
            session.add(
                RolloutDevice(
                    rollout_id=rollout.id,
                    device_id=device.id,
                    state=DeviceState.ASSIGNED,
                    epoch=epoch,
                    generation=generation,
                    assigned_at=now,
                    changed_at=now,
                )
            )
    return rollout


def follow(session: Session, *, device: Device, fleet_key: X25519PrivateKey, now: float) -> None:
    """Move the rollouts of a device to where its last report puts them, in the caller's transaction.

    One that failed is followed by a new desired document, which names what the device went back to.
    """
    reported = devices.last_reported(device)
    if reported is None:
        return
    for row, rollout in _open_attempts(session, device_id=device.id):
        verdict = judge(Attempt(_reference(rollout), (row.epoch, row.generation)), reported)
        if not _move(session, row, verdict, now=now):
            continue
        if verdict.state is DeviceState.FAILED:
            _take_back(session, device, reported, rollout, fleet_key=fleet_key, now=now)
        _finish(session, rollout, now=now)


def abort(session: Session, rollout_id: int, *, fleet_key: X25519PrivateKey, now: float) -> Rollout:
    """Stop a rollout: devices that haven't finished are told to keep, or to go back to, what they ran before.

    Raises:
        NotFound: no such rollout.
        Conflict: it has ended.
    """
    with writing(session):
        rollout = find_rollout(session, rollout_id)
        if not _end(session, rollout, RolloutState.ABORTED, now=now):
            raise Conflict(f"rollout {rollout_id}: has {rollout.state.value} already, expected it to be running")
        rows = session.scalars(
            select(RolloutDevice).where(RolloutDevice.rollout_id == rollout_id, RolloutDevice.state.in_(OPEN))
        ).all()
        for row in rows:
            if not _move(session, row, Verdict(DeviceState.ABORTED, "stopped by an operator"), now=now):
                continue
            device = devices.find_device(session, row.device_id)
            if device.revoked_at is None:
                reported = devices.last_reported(device)
                _take_back(session, device, reported, rollout, fleet_key=fleet_key, now=now)
    return rollout


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
            _move(session, row, Verdict(DeviceState.ABORTED, "the device was revoked"), now=now)
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


def _check_floor(session: Session, release: Release) -> None:
    for other in releases.list_releases(session):
        if other.name != release.name:
            continue
        for model in releases.read_manifest(session, other).models:
            if model.floor > release.version:
                raise Refused(
                    f"release {release.name} {release.version}: revoked by version {other.version}, which sets the "
                    f"floor of the model {model.name} to {model.floor}"
                )


def _choose_devices(session: Session, names: Sequence[str]) -> list[Device]:
    if list(names) == [ALL]:
        chosen = [device for device in devices.list_devices(session) if device.revoked_at is None]
    else:
        chosen = list({device.id: device for device in (devices.find_device(session, one) for one in names)}.values())
    revoked = [device.name for device in chosen if device.revoked_at is not None]
    if revoked:
        raise Refused(f"device {revoked[0]!r}: is revoked, expected one that can still be updated")
    if not chosen:
        raise Refused("rollout: expected at least one device, found none")
    return chosen


def _supersede(session: Session, device: Device, *, by: Rollout, now: float) -> None:
    for row, rollout in _open_attempts(session, device_id=device.id):
        if rollout.release == by.release:
            _move(session, row, Verdict(DeviceState.ABORTED, f"rollout {by.id} took its place"), now=now)
            _finish(session, rollout, now=now)


def _open_attempts(session: Session, *, device_id: str) -> list[tuple[RolloutDevice, Rollout]]:
    rows = session.execute(
        select(RolloutDevice, Rollout)
        .join(Rollout, Rollout.id == RolloutDevice.rollout_id)
        .where(RolloutDevice.device_id == device_id, RolloutDevice.state.in_(OPEN))
        .order_by(RolloutDevice.rollout_id)
    )
    return [(row, rollout) for row, rollout in rows]


def _move(session: Session, row: RolloutDevice, verdict: Verdict, *, now: float) -> bool:
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
    states = session.scalars(select(RolloutDevice.state).where(RolloutDevice.rollout_id == rollout.id)).all()
    state = sum_up(states)
    if state is not RolloutState.RUNNING:
        _end(session, rollout, state, now=now)


def _end(session: Session, rollout: Rollout, state: RolloutState, *, now: float) -> bool:
    ended = session.execute(
        update(Rollout)
        .where(Rollout.id == rollout.id, Rollout.state == RolloutState.RUNNING)
        .values(state=state, finished_at=now)
    )
    return _changed_one(ended)


def _take_back(
    session: Session,
    device: Device,
    reported: Reported | None,
    rollout: Rollout,
    *,
    fleet_key: X25519PrivateKey,
    now: float,
) -> None:
    """Write a desired document that names what the device is to keep instead of the rollout's release."""
    kept = None if reported is None else kept_without(reported, target=_reference(rollout))
    assignment = None
    if kept is not None:
        try:
            release = _find_by_digest(session, kept)
            opened = open_release(session, release, fleet_key=fleet_key)
            assignment = assign(session, opened, device=device, probation=_probation(rollout))
        except (FleetError, WireError) as error:
            # Without an assignment the device keeps it all the same; its report must not be lost over this.
            _log.error("device %s keeps %s %d unassigned: %s", device.id, kept.release, kept.version, error)
    write_desired(session, device=device, release=rollout.release, assignment=assignment, now=now)


def _find_by_digest(session: Session, reference: ReleaseReference) -> Release:
    release = session.scalar(select(Release).where(Release.manifest_sha256 == reference.manifest_sha256))
    if release is None:
        raise NotFound(f"release {reference.release} {reference.version}: not of this fleet")
    return release


def _reference(rollout: Rollout) -> ReleaseReference:
    return ReleaseReference(rollout.release, rollout.version, rollout.manifest_sha256)


def _probation(rollout: Rollout) -> ProbationLimits:
    return msgspec.json.decode(rollout.probation, type=ProbationLimits)


def _changed_one(result: object) -> bool:
    assert isinstance(result, CursorResult)
    return result.rowcount == 1
