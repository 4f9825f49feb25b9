"""Have enough people approved a rollout, and does it begin?

Nobody approves what they started, nobody counts twice, and an approval counts only for the very rollout that was looked
at. To stop one needs nobody's approval.
"""

import hashlib
from collections.abc import Sequence

from shoal_wire.encoding import canonical
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, WrongRole
from shoal_fleet.kek.vault import Vault
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.machine import RolloutState
from shoal_fleet.rollouts.models import Rollout, RolloutApproval, RolloutDevice
from shoal_fleet.rollouts.policy import find_approvals_needed


def approve(session: Session, rollout_id: int, *, by: str, vault: Vault, now: float) -> Rollout:
    """Note an approval; the last one that was needed begins the rollout.

    Raises:
        NotFound: no such rollout.
        Conflict: it doesn't wait for approval.
        WrongRole: `by` is who started it.
        Refused: see `service.launch`; the approval isn't kept then.
    """
    with writing(session):
        rollout = service.find_rollout(session, rollout_id)
        if rollout.state is not RolloutState.WAITING:
            raise Conflict(f"rollout {rollout_id}: is {rollout.state.value}, expected it to wait for approval")
        if by == rollout.created_by:
            raise WrongRole(f"rollout {rollout_id}: {by} started it, expected the approval of somebody else")
        if by not in list_approvers(session, rollout):
            digest = content_digest(session, rollout)
            session.merge(RolloutApproval(rollout_id=rollout_id, actor=by, content_sha256=digest, approved_at=now))
            session.flush()
            service.record(session, rollout, "approved", by=by, detail={"content_sha256": digest}, now=now)
        needed = max(rollout.approvals_needed, find_approvals_needed(session))
        if len(list_approvers(session, rollout)) >= needed:
            service.launch(session, rollout, by=by, vault=vault, now=now)
    return rollout


def list_approvers(session: Session, rollout: Rollout) -> Sequence[str]:
    """Who approved this rollout as it is now, in order."""
    rows = session.scalars(
        select(RolloutApproval)
        .where(RolloutApproval.rollout_id == rollout.id)
        .order_by(RolloutApproval.approved_at, RolloutApproval.actor)
    ).all()
    if not rows:
        return ()
    digest = content_digest(session, rollout)
    return [row.actor for row in rows if row.content_sha256 == digest]


def content_digest(session: Session, rollout: Rollout) -> str:
    """SHA-256 of all that is approved: the release, the devices, and the limits that they judge it by."""
    devices = session.scalars(
        select(RolloutDevice.device_id).where(RolloutDevice.rollout_id == rollout.id).order_by(RolloutDevice.device_id)
    ).all()
    fields: list[str | int] = [rollout.id, rollout.manifest_sha256, rollout.probation, rollout.created_by, *devices]
    return hashlib.sha256(canonical(fields)).hexdigest()
