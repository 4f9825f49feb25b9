"""Have enough people approved a rollout, and does it begin?

Nobody approves what they started, nobody counts twice, and an approval counts only for the very rollout that was looked
at. A token counts as the person who made it, also where another token did so for them. To stop one needs nobody's
approval.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from shoal_wire.encoding import canonical
from sqlalchemy import select
from sqlalchemy.orm import Session

from shoal_fleet.access.projects import project_of_release
from shoal_fleet.access.roles import Reach, is_within
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, WrongRole
from shoal_fleet.kek.vault import Vault
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.machine import RolloutState
from shoal_fleet.rollouts.models import Rollout, RolloutApproval, RolloutDevice
from shoal_fleet.rollouts.policy import check_person, find_approvals_needed


def approve(
    session: Session, rollout_id: int, *, by: str, vault: Vault, now: float, person: str | None = None
) -> Rollout:
    """Note an approval; the last one that was needed begins the rollout.

    `person` answers for `by`; None where that is the same.

    Raises:
        NotFound: no such rollout.
        Conflict: it doesn't wait for approval, or it isn't known who answers for having started it.
        WrongRole: `by`, or who answers for it, started it; or it isn't known who answers for it.
        Refused: see `service.launch`; the approval isn't kept then.
    """
    with writing(session):
        rollout = service.find_rollout(session, rollout_id)
        if rollout.state is not RolloutState.WAITING:
            raise Conflict(f"rollout {rollout_id}: is {rollout.state.value}, expected it to wait for approval")
        if not rollout.person:
            raise Conflict(
                f"rollout {rollout_id}: it isn't known who made {rollout.created_by}; abort it, start it anew"
            )
        answers = check_person(by, person)
        if answers == rollout.person:
            raise WrongRole(f"rollout {rollout_id}: {answers} started it, expected the approval of somebody else")
        if answers not in find_approvals(session, rollout):
            digest = content_digest(session, rollout)
            session.merge(
                RolloutApproval(rollout_id=rollout_id, actor=by, person=answers, content_sha256=digest, approved_at=now)
            )
            session.flush()
            service.record(session, rollout, "approved", by=by, detail={"content_sha256": digest}, now=now)
        project = project_of_release(session, rollout.release)
        needed = max(rollout.approvals_needed, find_approvals_needed(session, project))
        if len(list_approvers(session, rollout)) >= needed:
            service.launch(session, rollout, by=by, vault=vault, now=now)
    return rollout


class Approver(NamedTuple):
    """Somebody who may want to approve."""

    person: str
    """Who answers for them; empty where nobody knows."""
    reach: Reach
    """The projects in which they may."""


def may_approve(session: Session, rollout: Rollout, approver: Approver) -> bool:
    """Whether `approve` would note an approval of theirs."""
    return (
        rollout.state is RolloutState.WAITING
        and rollout.person not in ("", approver.person)
        and approver.person not in ("", *find_approvals(session, rollout))
        and is_within(project_of_release(session, rollout.release), approver.reach)
    )


def list_approvers(session: Session, rollout: Rollout) -> Sequence[str]:
    """Who approved this rollout as it is now, in order."""
    return list(find_approvals(session, rollout).values())


def find_approvals(session: Session, rollout: Rollout) -> Mapping[str, str]:
    """By person: as whom they first approved this rollout as it is now, in order."""
    rows = session.scalars(
        select(RolloutApproval)
        .where(RolloutApproval.rollout_id == rollout.id)
        .order_by(RolloutApproval.approved_at, RolloutApproval.actor)
    ).all()
    if not rows:
        return {}
    digest = content_digest(session, rollout)
    found: dict[str, str] = {}
    for row in rows:
        if row.content_sha256 == digest:
            found.setdefault(row.person, row.actor)
    return found


def content_digest(session: Session, rollout: Rollout) -> str:
    """SHA-256 of all that is approved: the release, the devices, the limits that they judge it by, waves and gates."""
    devices = session.scalars(
        select(RolloutDevice.device_id).where(RolloutDevice.rollout_id == rollout.id).order_by(RolloutDevice.device_id)
    ).all()
    fields: list[str | int] = [rollout.id, rollout.manifest_sha256, rollout.probation, rollout.created_by, *devices]
    fields += [rollout.plan] if rollout.plan else []
    return hashlib.sha256(canonical(fields)).hexdigest()
