"""How many people must want a rollout before it begins?"""

from sqlalchemy.orm import Session

from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.rollouts.models import RolloutPolicy

MAX_APPROVALS = 8

_ONLY_ROW = 1


def find_approvals_needed(session: Session) -> int:
    """Approvals that a new rollout needs, of people other than who starts it."""
    row = session.get(RolloutPolicy, _ONLY_ROW)
    return 0 if row is None else row.approvals


def set_approvals_needed(session: Session, approvals: int, *, by: str, now: float) -> None:
    """Change it. Rollouts that wait already need no fewer than when they were started."""
    with writing(session):
        row = session.get(RolloutPolicy, _ONLY_ROW)
        before = 0 if row is None else row.approvals
        if row is None:
            session.add(RolloutPolicy(id=_ONLY_ROW, approvals=approvals))
        else:
            row.approvals = approvals
        detail = {"approvals": approvals, "before": before}
        audit.append(session, actor=by, action="policy.changed", subject="rollouts", detail=detail, now=now)
