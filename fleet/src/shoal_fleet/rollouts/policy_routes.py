"""Which paths of the API show and change how many people must want a rollout?"""

from typing import Annotated, Self

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.access.roles import EVERYWHERE, check_within
from shoal_fleet.access.views import AnyProject
from shoal_fleet.database import Sessions
from shoal_fleet.rollouts import policy
from shoal_fleet.rollouts.policy import MAX_APPROVALS, Policy
from shoal_fleet.times import Clock


class NewPolicy(BaseModel):
    """What a rollout is to need before it begins."""

    model_config = ConfigDict(extra="forbid")

    approvals: Annotated[int, Field(ge=0, le=MAX_APPROVALS, description="of people other than who starts it")]
    project: AnyProject = EVERYWHERE


class ProposalView(BaseModel):
    """A lower number, which waits for approval."""

    approvals: int
    by: str
    approved_by: list[str]
    approvals_needed: int


class PolicyView(BaseModel):
    """What a rollout needs before it begins, by the policy of the fleet or of one project."""

    project: str
    approvals: int
    proposal: ProposalView | None

    @classmethod
    def of(cls, found: Policy) -> Self:
        """View of a policy."""
        waiting = found.proposal
        return cls(
            project=found.project,
            approvals=found.approvals,
            proposal=waiting
            and ProposalView(
                approvals=waiting.approvals,
                by=waiting.by,
                approved_by=list(waiting.approved_by),
                approvals_needed=waiting.needed,
            ),
        )


class PolicyRoutes:
    """Handlers."""

    def __init__(self, *, sessions: Sessions, clock: Clock) -> None:
        self._sessions = sessions
        self._clock = clock

    def show_policy(self, caller: Asking, project: Annotated[AnyProject, Query()] = EVERYWHERE) -> PolicyView:
        """How many approvals a rollout needs in every project, or in one. The greater of both counts."""
        if project != EVERYWHERE:
            check_within(project, caller.reach)
        with self._sessions() as session:
            return PolicyView.of(policy.find_policy(session, project))

    def set_policy(self, body: NewPolicy, caller: Asking) -> PolicyView:
        """Say how many approvals a rollout needs. A lower number waits until as many people approved it.

        Rollouts that wait already need no fewer than before.
        """
        check_within(body.project, caller.reach)
        with self._sessions() as session:
            return PolicyView.of(
                policy.set_approvals_needed(
                    session,
                    body.approvals,
                    by=caller.actor,
                    person=caller.person,
                    project=body.project,
                    now=self._clock(),
                )
            )

    def approve_policy(self, body: NewPolicy, caller: Asking) -> PolicyView:
        """Approve the lower number that somebody else proposed."""
        check_within(body.project, caller.reach)
        with self._sessions() as session:
            return PolicyView.of(
                policy.approve_policy(
                    session,
                    body.approvals,
                    by=caller.actor,
                    person=caller.person,
                    project=body.project,
                    now=self._clock(),
                )
            )


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock) -> APIRouter:
    """Routes of `/policy`, below those of rollouts."""
    routes = PolicyRoutes(sessions=sessions, clock=clock)
    router = APIRouter()
    admin = [Depends(gate.admin)]
    router.add_api_route("/policy", routes.show_policy, methods=["GET"], dependencies=[Depends(gate.viewer)])
    router.add_api_route("/policy", routes.set_policy, methods=["POST"], dependencies=admin)
    router.add_api_route("/policy/approve", routes.approve_policy, methods=["POST"], dependencies=admin)
    return router
