"""Which paths of the API start, show, steer and stop rollouts?"""

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
from shoal_fleet.errors import Refused
from shoal_fleet.kek.vault import Vault
from shoal_fleet.rollouts import approvals, policy_routes, service, steering
from shoal_fleet.rollouts.plan import MAX_WAVES, Plan
from shoal_fleet.rollouts.preview import preview
from shoal_fleet.rollouts.service import RolloutStart, list_waves
from shoal_fleet.rollouts.views import PreviewView, RolloutDetail, RolloutView
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


class GateBody(BaseModel):
    """What a wave must show; a field that is left out has its usual value."""

    model_config = ConfigDict(extra="forbid")

    min_success: FiniteFloat | None = Field(default=None, description="share of the devices that are heard of (1)")
    max_failed: int | None = Field(default=None, description="devices that may go back or refuse (0)")
    silence_s: FiniteFloat | None = Field(default=None, description="after so long a device counts as silent (a day)")
    max_silent: FiniteFloat | None = Field(default=None, description="share of the devices that may be silent (0.1)")


class WaveBody(BaseModel):
    """A part of the devices: one of count, percent and where. The last wave takes all that are left."""

    model_config = ConfigDict(extra="forbid")

    count: int | None = None
    percent: FiniteFloat | None = Field(default=None, description="of all devices of the rollout")
    where: str | None = Field(default=None, description='an expression, as labels.canary == "yes"')
    soak_s: FiniteFloat | None = Field(default=None, description="wait before the next wave begins (0)")
    gate: GateBody | None = None


class NewRollout(BaseModel):
    """Which release goes to which devices, and how."""

    model_config = ConfigDict(extra="forbid")

    release: Annotated[str, Field(max_length=63)]
    version: Annotated[int, Field(ge=1, lt=2**31)]
    devices: Annotated[
        list[Annotated[str, Field(max_length=200)]],
        Field(max_length=10_000, description='ids or names, or "all" alone; empty where `target` means them'),
    ] = []
    target: Annotated[str | None, Field(max_length=2000, description='an expression, as labels.site == "north"')] = None
    waves: Annotated[list[WaveBody], Field(max_length=MAX_WAVES, description="without, all are told at once")] = []
    gate: GateBody | None = Field(default=None, description="of each wave that has none of its own")
    rolls_back: bool | None = Field(default=None, description="what a failed gate does: roll back (true), or pause")
    late_joiners: bool | None = Field(default=None, description="devices that come to be meant take part (true)")
    probation: ProbationBody = ProbationBody()

    def to_start(self) -> RolloutStart:
        """The same as the rules have it.

        Raises:
            Malformed: a value out of range.
            Refused: devices are named and meant, or neither.
        """
        if bool(self.devices) == (self.target is not None):
            raise Refused("rollout: expected either devices or a target, found " + ("both" if self.devices else "none"))
        fields = {"target", "waves", "gate", "rolls_back", "late_joiners"}
        try:
            plan = msgspec.convert(self.model_dump(include=fields, exclude_none=True), Plan)
        except msgspec.ValidationError as error:
            raise Malformed(f"plan: {error}") from None
        return RolloutStart(self.release, self.version, self.devices, self.probation.to_limits(), plan)


class RollBackBody(BaseModel):
    """How much of a rollout goes back."""

    model_config = ConfigDict(extra="forbid")

    wave: Annotated[int, Field(ge=1, le=MAX_WAVES)] | None = Field(default=None, description="this one alone")


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
        with self._sessions() as session:
            rollout = service.start(
                session, body.to_start(), by=caller.actor, person=caller.person, vault=self._vault, now=self._clock()
            )
        self._wake()
        return self.show_rollout(rollout.id)

    def preview_rollout(self, body: NewRollout) -> PreviewView:
        """Which devices a rollout would go to, wave by wave. Nothing is created."""
        with self._sessions() as session:
            return PreviewView(waves=preview(session, body.to_start(), now=self._clock()))

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
                waves=list_waves(session, rollout),
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

    def pause_rollout(self, rollout: RolloutId, caller: Asking) -> RolloutDetail:
        """Tell no more devices; those that were told go on."""
        with self._sessions() as session:
            steering.pause(session, rollout, by=caller.actor, now=self._clock())
        return self.show_rollout(rollout)

    def resume_rollout(self, rollout: RolloutId, caller: Asking) -> RolloutDetail:
        """Go on with a rollout that is paused; its gate is asked again at once."""
        with self._sessions() as session:
            steering.resume(session, rollout, by=caller.actor, now=self._clock())
        return self.show_rollout(rollout)

    def roll_back_rollout(self, rollout: RolloutId, body: RollBackBody, caller: Asking) -> list[RolloutDetail]:
        """Have devices run again what they ran before; answers with the rollouts that do so.

        This needs nobody's approval.
        """
        with self._sessions() as session:
            begun = steering.roll_back(
                session, rollout, wave=body.wave, by=caller.actor, vault=self._vault, now=self._clock()
            )
        self._wake()
        return [self.show_rollout(one.id) for one in begun]

    def retry_rollout(self, rollout: RolloutId, caller: Asking) -> RolloutDetail:
        """Try the devices that failed once more, in a rollout of its own, which is the answer."""
        with self._sessions() as session:
            begun = steering.retry(
                session, rollout, by=caller.actor, person=caller.person, vault=self._vault, now=self._clock()
            )
        self._wake()
        return self.show_rollout(begun.id)


def make_router(*, sessions: Sessions, gate: Gate, clock: Clock, vault: Vault, wake: Callable[[], None]) -> APIRouter:
    """Routes of `/api/v1/rollouts`. `vault` opens content keys; `wake` is called after each commit."""
    routes = RolloutRoutes(sessions=sessions, clock=clock, vault=vault, wake=wake)
    router = APIRouter(prefix="/api/v1/rollouts", tags=["rollouts"], responses=ERRORS)
    viewer, operator = [Depends(gate.viewer)], [Depends(gate.operator)]
    router.add_api_route("", routes.start_rollout, methods=["POST"], status_code=201, dependencies=operator)
    router.add_api_route("", routes.list_rollouts, methods=["GET"], dependencies=viewer)
    router.add_api_route("/preview", routes.preview_rollout, methods=["POST"], dependencies=operator)
    router.include_router(policy_routes.make_router(sessions=sessions, gate=gate, clock=clock))
    router.add_api_route("/{rollout}", routes.show_rollout, methods=["GET"], dependencies=viewer)
    router.add_api_route("/{rollout}/approve", routes.approve_rollout, methods=["POST"], dependencies=operator)
    router.add_api_route("/{rollout}/abort", routes.abort_rollout, methods=["POST"], dependencies=operator)
    router.add_api_route("/{rollout}/pause", routes.pause_rollout, methods=["POST"], dependencies=operator)
    router.add_api_route("/{rollout}/resume", routes.resume_rollout, methods=["POST"], dependencies=operator)
    router.add_api_route("/{rollout}/roll-back", routes.roll_back_rollout, methods=["POST"], dependencies=operator)
    router.add_api_route("/{rollout}/retry", routes.retry_rollout, methods=["POST"], dependencies=operator)
    return router
