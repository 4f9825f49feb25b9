"""Which paths of the API start, show and stop rollouts?"""

from collections.abc import Callable
from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat
from shoal_wire.errors import Malformed
from shoal_wire.messages import ProbationLimits

from shoal_fleet.access.gate import Asking, Gate
from shoal_fleet.api import ERRORS
from shoal_fleet.database import Sessions
from shoal_fleet.kek.vault import Vault
from shoal_fleet.rollouts import approvals, policy_routes, service
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.rollouts.views import RolloutDetail, RolloutView
from shoal_fleet.times import Clock

RolloutId = Annotated[int, Field(ge=1, lt=2**63)]
Limit = Annotated[int, Query(ge=1, le=1000)]


class ProbationBody(BaseModel):
    """What the release must show on a board; a field that is left out has its usual value."""

    model_config = ConfigDict(extra="forbid")

    answers: int | None = None
    seconds: FiniteFloat | None = None
    p95_ratio: FiniteFloat | None = None
    max_errors: int | None = None
    deadline_s: FiniteFloat | None = None

    def to_limits(self) -> ProbationLimits:
        """The same as the wire has it.

        Raises:
            Malformed: a value out of range.
        """
        try:
            return msgspec.convert(self.model_dump(exclude_none=True), ProbationLimits)
        except msgspec.ValidationError as error:
            raise Malformed(f"probation: {error}") from None


class NewRollout(BaseModel):
    """Which release goes to which devices."""

    model_config = ConfigDict(extra="forbid")

    release: Annotated[str, Field(max_length=63)]
    version: Annotated[int, Field(ge=1, lt=2**31)]
    devices: Annotated[
        list[Annotated[str, Field(max_length=200)]],
        Field(min_length=1, max_length=10_000, description='ids or names, or "all" alone'),
    ]
    probation: ProbationBody = ProbationBody()


class RolloutRoutes:
    """Handlers. `wake` makes the new desired documents go out."""

    def __init__(self, *, sessions: Sessions, clock: Clock, vault: Vault, wake: Callable[[], None]) -> None:
        self._sessions = sessions
        self._clock = clock
        self._vault = vault
        self._wake = wake

    def start_rollout(self, body: NewRollout, caller: Asking) -> RolloutDetail:
        """Assign a release to devices. Each of them goes back by itself where it does badly.

        Where the policy asks for approvals, no device is told before they are there.
        """
        wanted = RolloutStart(body.release, body.version, body.devices, body.probation.to_limits())
        with self._sessions() as session:
            rollout = service.start(
                session, wanted, by=caller.actor, person=caller.person, vault=self._vault, now=self._clock()
            )
        self._wake()
        return self.show_rollout(rollout.id)

    def list_rollouts(self, limit: Limit = 100) -> list[RolloutView]:
        """The newest rollouts first."""
        with self._sessions() as session:
            return [
                RolloutView.of(
                    rollout,
                    [row for row, _ in service.list_attempts(session, rollout.id)],
                    approvers=approvals.list_approvers(session, rollout),
                )
                for rollout in service.list_rollouts(session, limit=limit)
            ]

    def show_rollout(self, rollout: RolloutId) -> RolloutDetail:
        """One rollout, device by device."""
        with self._sessions() as session:
            found = service.find_rollout(session, rollout)
            return RolloutDetail.of_attempts(
                found,
                service.list_attempts(session, rollout),
                approvers=approvals.list_approvers(session, found),
            )

    def approve_rollout(self, rollout: RolloutId, caller: Asking) -> RolloutDetail:
        """Approve a rollout that somebody else started; the last approval that it needs begins it."""
        with self._sessions() as session:
            approvals.approve(
                session, rollout, by=caller.actor, person=caller.person, vault=self._vault, now=self._clock()
            )
        self._wake()
        return self.show_rollout(rollout)

    def abort_rollout(self, rollout: RolloutId, caller: Asking) -> RolloutDetail:
        """Stop a rollout: devices that haven't finished keep, or go back to, what they ran before.

        This needs nobody's approval.
        """
        with self._sessions() as session:
            service.abort(session, rollout, by=caller.actor, vault=self._vault, now=self._clock())
        self._wake()
        return self.show_rollout(rollout)


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock, vault: Vault, wake: Callable[[], None]) -> APIRouter:
    """Routes of `/api/v1/rollouts`. `vault` opens content keys; `wake` is called after each commit."""
    routes = RolloutRoutes(sessions=sessions, clock=clock, vault=vault, wake=wake)
    router = APIRouter(prefix="/api/v1/rollouts", tags=["rollouts"], responses=ERRORS)
    viewer, operator = [Depends(gate.viewer)], [Depends(gate.operator)]
    router.add_api_route("", routes.start_rollout, methods=["POST"], status_code=201, dependencies=operator)
    router.add_api_route("", routes.list_rollouts, methods=["GET"], dependencies=viewer)
    router.include_router(policy_routes.make_router(sessions=sessions, gate=gate, clock=clock))
    router.add_api_route("/{rollout}", routes.show_rollout, methods=["GET"], dependencies=viewer)
    router.add_api_route("/{rollout}/approve", routes.approve_rollout, methods=["POST"], dependencies=operator)
    router.add_api_route("/{rollout}/abort", routes.abort_rollout, methods=["POST"], dependencies=operator)
    return router
