"""How many people must want a rollout before it begins?

The fleet has a policy, and each project may have a stricter one. A policy becomes stricter at once. It becomes laxer
only when as many people other than who proposes it have approved that as it asks for itself: else one person could
take it away, and then do alone what it is there for.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from shoal_fleet.access.projects import check_project
from shoal_fleet.access.roles import EVERYWHERE
from shoal_fleet.audit import service as audit
from shoal_fleet.database import writing
from shoal_fleet.errors import Conflict, WrongRole
from shoal_fleet.rollouts.models import ApprovalPolicy, PolicyApproval

MAX_APPROVALS = 8


class Proposal(NamedTuple):
    """A laxer policy that waits for approval."""

    approvals: int
    """That a rollout would need."""
    by: str
    approved_by: Sequence[str]
    needed: int
    """Approvals of the proposal itself."""


class Policy(NamedTuple):
    """What counts in a project, or in every one."""

    project: str
    approvals: int
    proposal: Proposal | None


def find_approvals_needed(session: Session, project: str = EVERYWHERE) -> int:
    """Approvals that a new rollout in a project needs, of people other than who starts it."""
    rows = session.scalars(select(ApprovalPolicy).where(ApprovalPolicy.project.in_({EVERYWHERE, project})))
    return max((row.approvals for row in rows), default=0)


def find_policy(session: Session, project: str) -> Policy:
    """The policy of a project alone, or with EVERYWHERE that of the fleet."""
    row = session.get(ApprovalPolicy, project)
    if row is None:
        return Policy(project, 0, None)
    if row.proposed is None:
        return Policy(project, row.approvals, None)
    approvers = session.scalars(
        select(PolicyApproval.actor)
        .where(PolicyApproval.project == project)
        .order_by(PolicyApproval.approved_at, PolicyApproval.person)
    ).all()
    return Policy(project, row.approvals, Proposal(row.proposed, row.proposed_by, approvers, row.approvals))


def set_approvals_needed(
    session: Session,
    approvals: int,
    *,
    by: str,
    now: float,
    person: str | None = None,
    project: str = EVERYWHERE,
    is_forced: bool = False,
) -> Policy:
    """Change a policy, or propose it where it is lower than the present one. A proposal of before is dropped.

    `person` answers for `by`; None where that is the same. `is_forced`: nobody is asked. Rollouts that wait already
    need no fewer approvals than when they were started.

    Raises:
        NotFound: no such project.
        WrongRole: it isn't known who answers for `by`.
    """
    with writing(session):
        check_project(session, project)
        row = session.get(ApprovalPolicy, project)
        before = 0 if row is None else row.approvals
        if row is None:
            row = ApprovalPolicy(project=project, approvals=0, proposed=None, proposed_by="", proposed_person="")
            session.add(row)
            session.flush()
        _drop_proposal(session, row)
        detail = {"approvals": approvals, "before": before}
        if approvals >= before or is_forced:
            row.approvals = approvals
            _record(session, "changed", project, by=by, detail=detail, now=now)
        else:
            row.proposed, row.proposed_by, row.proposed_person = approvals, by, check_person(by, person)
            _record(session, "proposed", project, by=by, detail=detail, now=now)
        session.flush()
        return find_policy(session, project)


def approve_policy(
    session: Session, approvals: int, *, by: str, now: float, person: str | None = None, project: str = EVERYWHERE
) -> Policy:
    """Approve that a policy becomes `approvals`; with the last approval that it needs it counts.

    Raises:
        Conflict: that isn't what is proposed.
        WrongRole: `by`, or who answers for it, proposed it; or it isn't known who answers for it.
    """
    with writing(session):
        row = session.get(ApprovalPolicy, project)
        if row is None or row.proposed != approvals:
            found = "nothing" if row is None or row.proposed is None else row.proposed
            raise Conflict(f"policy of {_name(project)}: expected {approvals} to be proposed, found {found}")
        answers = check_person(by, person)
        if answers == row.proposed_person:
            raise WrongRole(
                f"policy of {_name(project)}: {answers} proposed it, expected the approval of somebody else"
            )
        if session.get(PolicyApproval, (project, answers)) is None:
            session.add(PolicyApproval(project=project, person=answers, actor=by, approved_at=now))
            session.flush()
            _record(session, "approved", project, by=by, detail={"approvals": approvals}, now=now)
        approved = session.scalars(select(PolicyApproval.person).where(PolicyApproval.project == project)).all()
        if len(approved) >= row.approvals:
            before, proposed_by = row.approvals, row.proposed_by
            row.approvals = approvals
            _drop_proposal(session, row)
            detail = {"approvals": approvals, "before": before, "proposed_by": proposed_by}
            _record(session, "changed", project, by=by, detail=detail, now=now)
        session.flush()
        return find_policy(session, project)


def check_person(actor: str, person: str | None) -> str:
    """Who answers for an actor; None stands for the actor itself.

    Raises:
        WrongRole: nobody knows.
    """
    found = actor if person is None else person
    if not found:
        raise WrongRole(
            f"{actor}: it isn't known who made this token, so it can't count as a person; make it anew, or log in"
        )
    return found


def _drop_proposal(session: Session, row: ApprovalPolicy) -> None:
    row.proposed, row.proposed_by, row.proposed_person = None, "", ""
    session.execute(delete(PolicyApproval).where(PolicyApproval.project == row.project))


def _record(session: Session, event: str, project: str, *, by: str, detail: Mapping[str, object], now: float) -> None:
    subject = "rollouts" if project == EVERYWHERE else f"rollouts of {project}"
    audit.append(session, actor=by, action=f"policy.{event}", subject=subject, detail=detail, now=now)


def _name(project: str) -> str:
    return "the fleet" if project == EVERYWHERE else f"project {project[:80]!r}"
