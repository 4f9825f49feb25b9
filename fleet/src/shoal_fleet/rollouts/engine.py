"""When does a wave begin, pass or stop, and what follows?

One step of one rollout is one transaction, which does at most one thing: everything it needs is in the database, so
that the fleet may be killed at any moment, and a look that comes twice changes nothing.
"""

import logging
from collections.abc import Callable, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access.projects import project_of_release
from shoal_fleet.audit import service as audit
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices.models import DeviceSlot
from shoal_fleet.errors import FleetError
from shoal_fleet.kek.vault import Vault
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.judging import Outcome, Tally, Verdict, judge_wave
from shoal_fleet.rollouts.machine import UNDER_WAY, DeviceState, RolloutState, WaveState, sum_up
from shoal_fleet.rollouts.models import Rollout, RolloutDevice, RolloutWave
from shoal_fleet.rollouts.plan import Gate, Plan, read_plan
from shoal_fleet.rollouts.steering import roll_back_wave
from shoal_fleet.targeting.service import find_matching

LOOK_EVERY_S = 2.0

_log = logging.getLogger(__name__)


class Engine:
    """Looks at all rollouts that go out in waves."""

    def __init__(self, sessions: Sessions, *, vault: Vault, clock: Callable[[], float]) -> None:
        """Sessions must reach every project."""
        self._sessions = sessions
        self._vault = vault
        self._clock = clock

    def look(self) -> bool:
        """Take each of them as far as it goes now; whether there is anything new to publish."""
        with self._sessions() as session:
            running = session.scalars(
                select(Rollout.id).where(Rollout.state == RolloutState.RUNNING, Rollout.plan != "").order_by(Rollout.id)
            ).all()
        moved = [self._follow(rollout) for rollout in running]
        return any(moved)

    def _follow(self, rollout_id: int) -> bool:
        moved = False
        try:
            while self._step(rollout_id):
                moved = True
        except FleetError as error:
            _log.error("rollout %d: is paused: %s", rollout_id, error)
            with self._sessions() as session, writing(session):
                rollout = service.find_rollout(session, rollout_id)
                pause(session, rollout, reason=str(error), by=audit.FLEET, now=self._clock())
        return moved

    def _step(self, rollout_id: int) -> bool:
        with self._sessions() as session, writing(session):
            rollout = service.find_rollout(session, rollout_id)
            if rollout.state is not RolloutState.RUNNING:
                return False
            return step(session, rollout, vault=self._vault, now=self._clock())


def step(session: Session, rollout: Rollout, *, vault: Vault, now: float) -> bool:
    """The next thing that a running rollout needs, in the caller's transaction; False where there is none now.

    Raises:
        FleetError: its devices can't be told. It must be paused then.
    """
    plan = read_plan(rollout.plan)
    wave = _current(session, rollout)
    if wave is None:
        return False
    if plan.late_joiners and plan.target and _let_join(session, rollout, wave, plan, now=now):
        return True
    if wave.state is WaveState.WAITING:
        return _begin(session, rollout, wave, vault=vault, now=now)
    if _has_waiting(session, wave):
        service.tell(session, rollout, wave=wave.number, vault=vault, now=now)
        return True
    gate = plan.gate_of(wave.number)
    verdict = judge_wave(_tally(session, wave, gate, now=now), gate)
    wave.verdict = verdict.words
    if verdict.outcome is Outcome.STOPPED:
        _stop(session, rollout, wave, verdict, plan=plan, vault=vault, now=now)
        return True
    if verdict.outcome is Outcome.WAIT:
        wave.state, wave.soaking_at = WaveState.RUNNING, None
        return False
    if wave.soaking_at is None:
        wave.state, wave.soaking_at = WaveState.SOAKING, now
    if now < wave.soaking_at + plan.waves[wave.number - 1].soak_s:
        return False
    _pass(session, rollout, wave, verdict, now=now)
    return True


def pause(session: Session, rollout: Rollout, *, reason: str, by: str, now: float) -> None:
    """Tell no more devices, in the caller's transaction."""
    rollout.state, rollout.reason = RolloutState.PAUSED, reason
    service.record(session, rollout, "paused", by=by, detail={"reason": reason[:500]}, now=now)


def _current(session: Session, rollout: Rollout) -> RolloutWave | None:
    """The first that hasn't ended."""
    return session.scalars(
        select(RolloutWave)
        .where(RolloutWave.rollout_id == rollout.id, RolloutWave.finished_at.is_(None))
        .order_by(RolloutWave.number)
        .limit(1)
    ).first()


def _begin(session: Session, rollout: Rollout, wave: RolloutWave, *, vault: Vault, now: float) -> bool:
    service.tell(session, rollout, wave=wave.number, vault=vault, now=now)
    wave.state, wave.started_at = WaveState.RUNNING, now
    service.record(session, rollout, "wave_started", by=audit.FLEET, detail={"wave": wave.number}, now=now)
    return True


def _pass(session: Session, rollout: Rollout, wave: RolloutWave, verdict: Verdict, *, now: float) -> None:
    wave.state, wave.finished_at = WaveState.PASSED, now
    detail = {"wave": wave.number, "verdict": verdict.words}
    service.record(session, rollout, "wave_passed", by=audit.FLEET, detail=detail, now=now)
    session.flush()
    if _current(session, rollout) is not None:
        return
    states = session.scalars(select(RolloutDevice.state).where(RolloutDevice.rollout_id == rollout.id)).all()
    # Devices that are silent were told, and go on when they come back. Failures were within the gates.
    ended = sum_up([state for state in states if state not in UNDER_WAY and state is not DeviceState.FAILED])
    rollout.reason = verdict.words
    if service.end(session, rollout, ended, now=now):
        service.record(session, rollout, "ended", by=audit.FLEET, detail={"state": ended.value}, now=now)


def _stop(
    session: Session, rollout: Rollout, wave: RolloutWave, verdict: Verdict, *, plan: Plan, vault: Vault, now: float
) -> None:
    detail = {"wave": wave.number, "verdict": verdict.words}
    service.record(session, rollout, "wave_stopped", by=audit.FLEET, detail=detail, now=now)
    if not plan.rolls_back:
        pause(session, rollout, reason=f"wave {wave.number}: {verdict.words}", by=audit.FLEET, now=now)
        return
    wave.state, wave.finished_at = WaveState.STOPPED, now
    rollout.reason = f"wave {wave.number} rolled back: {verdict.words}"
    service.end(session, rollout, RolloutState.FAILED, now=now)
    service.stop_open(session, rollout, reason=f"wave {wave.number} was rolled back", vault=vault, now=now)
    roll_back_wave(session, rollout, wave=wave.number, by=audit.FLEET, vault=vault, now=now)
    service.record(session, rollout, "ended", by=audit.FLEET, detail={"state": RolloutState.FAILED.value}, now=now)


def _let_join(session: Session, rollout: Rollout, wave: RolloutWave, plan: Plan, *, now: float) -> bool:
    """Have devices that came to be meant wait in the wave that tells them next; whether there were any."""
    project = project_of_release(session, rollout.release)
    known = set(session.scalars(select(RolloutDevice.device_id).where(RolloutDevice.rollout_id == rollout.id)))
    runs = set(
        session.scalars(select(DeviceSlot.device_id).where(DeviceSlot.manifest_sha256 == rollout.manifest_sha256))
    )
    meant = find_matching(session, plan.target, project=project, now=now)
    late = [device for device in meant if device.id not in known | runs]
    if not late:
        return False
    number = wave.number
    if wave.state is WaveState.SOAKING and number < len(plan.waves):
        number += 1
    for device in late:
        service.add_device(session, rollout, device, wave=number, now=now)
    detail = {"wave": number, "devices": [device.id for device in late[: service.NAMED_DEVICES]]}
    service.record(session, rollout, "joined", by=audit.FLEET, detail=detail, now=now)
    session.flush()
    return True


def _has_waiting(session: Session, wave: RolloutWave) -> bool:
    waiting = select(RolloutDevice.device_id).where(
        RolloutDevice.rollout_id == wave.rollout_id,
        RolloutDevice.wave == wave.number,
        RolloutDevice.state == DeviceState.WAITING,
    )
    return session.scalars(waiting.limit(1)).first() is not None


def _tally(session: Session, wave: RolloutWave, gate: Gate, *, now: float) -> Tally:
    rows: Sequence[RolloutDevice] = session.scalars(
        select(RolloutDevice).where(
            RolloutDevice.rollout_id == wave.rollout_id,
            RolloutDevice.wave == wave.number,
            RolloutDevice.state.not_in({DeviceState.ABORTED, DeviceState.ROLLED_BACK}),
        )
    ).all()
    failed = [row for row in rows if row.state is DeviceState.FAILED]
    return Tally(
        total=len(rows),
        succeeded=sum(row.state is DeviceState.SUCCEEDED for row in rows),
        failed=len(failed),
        silent=sum(row.state in UNDER_WAY and row.assigned_at + gate.silence_s <= now for row in rows),
        reasons=[row.reason for row in failed],
    )
