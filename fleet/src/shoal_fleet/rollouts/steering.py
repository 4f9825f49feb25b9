"""What may an operator do with a rollout that is there: pause it, go on, take it back, try again?

To take back and to try again are rollouts of their own: they have devices, states and an end, as any other has. Each
tells which rollout it comes from.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, FleetError
from shoal_fleet.kek.vault import Vault
from shoal_fleet.releases.models import Release
from shoal_fleet.releases.revocation import check_assignable
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.machine import UNFINISHED, DeviceState, RolloutState, Verdict
from shoal_fleet.rollouts.models import Rollout, RolloutDevice


def pause(session: Session, rollout_id: int, *, by: str, now: float) -> Rollout:
    """Tell no more devices; those that were told go on.

    Raises:
        NotFound: no such rollout.
        Conflict: it doesn't run.
    """
    with writing(session):
        rollout = service.find_rollout(session, rollout_id)
        _expect(rollout, RolloutState.RUNNING)
        rollout.state, rollout.reason = RolloutState.PAUSED, f"paused by {by}"
        service.record(session, rollout, "paused", by=by, detail={}, now=now)
    return rollout


def resume(session: Session, rollout_id: int, *, by: str, now: float) -> Rollout:
    """Go on. A gate that stopped it is asked again at once, so what it found must have been put right.

    Raises:
        NotFound: no such rollout.
        Conflict: it isn't paused.
    """
    with writing(session):
        rollout = service.find_rollout(session, rollout_id)
        _expect(rollout, RolloutState.PAUSED)
        rollout.state, rollout.reason = RolloutState.RUNNING, ""
        service.record(session, rollout, "resumed", by=by, detail={}, now=now)
    return rollout


def roll_back(
    session: Session, rollout_id: int, *, wave: int | None, by: str, vault: Vault, now: float
) -> Sequence[Rollout]:
    """Have devices that took the release run again what they ran before; returns the rollouts that do so.

    A rollout that goes on is stopped first. `wave`: its devices alone. Who had nothing before keeps the release.

    Raises:
        NotFound: no such rollout.
        Conflict: it waits for approval, or none of its devices can go back.
    """
    with writing(session):
        rollout = service.find_rollout(session, rollout_id)
        if rollout.state is RolloutState.WAITING:
            raise Conflict(f"rollout {rollout_id}: waits for approval, expected one that has begun; abort it")
        if wave is None and service.end(session, rollout, RolloutState.ABORTED, now=now):
            rollout.reason = f"rolled back by {by}"
            service.stop_open(session, rollout, reason=rollout.reason, vault=vault, now=now)
            service.record(session, rollout, "aborted", by=by, detail={}, now=now)
        begun = roll_back_wave(session, rollout, wave=wave, by=by, vault=vault, now=now)
        if not begun:
            where = "" if wave is None else f" of wave {wave}"
            raise Conflict(f"rollout {rollout_id}: none of its devices{where} can go back to what it ran before")
    return begun


def roll_back_wave(
    session: Session, rollout: Rollout, *, wave: int | None, by: str, vault: Vault, now: float
) -> Sequence[Rollout]:
    """The same for one wave or for all, in the caller's transaction. Releases that mustn't be assigned are left out."""
    begun = []
    for release, rows in _by_release_before(session, rollout, wave=wave).items():
        try:
            check_assignable(session, release)
        except FleetError as error:
            detail = {"release": release.name, "version": release.version, "reason": str(error)[:500]}
            service.record(session, rollout, "not_rolled_back", by=by, detail=detail, now=now)
            continue
        back = Rollout(
            release=release.name,
            version=release.version,
            manifest_sha256=release.manifest_sha256,
            probation=rollout.probation,
            state=RolloutState.WAITING,
            created_by=by,
            person=by,
            approvals_needed=0,
            plan="",
            reason=f"takes back rollout {rollout.id}",
            created_at=now,
            finished_at=None,
        )
        session.add(back)
        session.flush()
        for row in rows:
            service.move(session, row, Verdict(DeviceState.ROLLED_BACK, f"by rollout {back.id}"), now=now)
            session.add(
                RolloutDevice(
                    rollout_id=back.id,
                    device_id=row.device_id,
                    state=DeviceState.WAITING,
                    epoch=0,
                    generation=0,
                    wave=1,
                    before_sha256="",
                    assigned_at=now,
                    changed_at=now,
                )
            )
        session.flush()
        detail = {"takes_back": rollout.id, "devices": [row.device_id for row in rows[: service.NAMED_DEVICES]]}
        service.record(session, back, "created", by=by, detail=detail, now=now)
        service.launch(session, back, by=by, vault=vault, now=now)
        begun.append(back)
    return begun


def retry(session: Session, rollout_id: int, *, by: str, person: str | None, vault: Vault, now: float) -> Rollout:
    """Try the devices of a rollout that failed once more, in a new one of the same release, which is returned.

    Raises:
        NotFound: no such rollout.
        Conflict: it goes on, or no device failed.
        Refused, WrongRole: as `service.start`.
    """
    rollout = service.find_rollout(session, rollout_id)
    if rollout.state in UNFINISHED:
        raise Conflict(f"rollout {rollout_id}: is {rollout.state.value}, expected one that has ended")
    failed = [
        row.device_id
        for row, device in service.list_attempts(session, rollout_id)
        if row.state is DeviceState.FAILED and device.revoked_at is None
    ]
    if not failed:
        raise Conflict(f"rollout {rollout_id}: none of its devices failed")
    wanted = service.RolloutStart(rollout.release, rollout.version, failed, service.probation_of(rollout))
    session.rollback()
    return service.start(session, wanted, by=by, person=person, vault=vault, now=now)


def _by_release_before(
    session: Session, rollout: Rollout, *, wave: int | None
) -> Mapping[Release, Sequence[RolloutDevice]]:
    wanted = select(RolloutDevice, Release).join(Release, Release.manifest_sha256 == RolloutDevice.before_sha256)
    wanted = wanted.where(
        RolloutDevice.rollout_id == rollout.id, RolloutDevice.state == DeviceState.SUCCEEDED
    ).order_by(RolloutDevice.device_id)
    if wave is not None:
        wanted = wanted.where(RolloutDevice.wave == wave)
    found: dict[Release, list[RolloutDevice]] = defaultdict(list)
    for row, release in session.execute(wanted):
        found[release].append(row)
    return found


def _expect(rollout: Rollout, state: RolloutState) -> None:
    if rollout.state is not state:
        raise Conflict(f"rollout {rollout.id}: is {rollout.state.value}, expected it to be {state.value}")
