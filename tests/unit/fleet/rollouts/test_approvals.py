"""Does a rollout wait until enough other people want it, and can one person alone stop it?"""

import pytest
from shoal_fleet.audit import service as audit
from shoal_fleet.audit.service import Filter
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.errors import Conflict, Refused, WrongRole
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import approvals, service
from shoal_fleet.rollouts.machine import RolloutState
from shoal_fleet.rollouts.models import DesiredRow, Rollout, RolloutDevice
from shoal_fleet.rollouts.policy import find_approvals_needed, set_approvals_needed
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire.messages import ProbationLimits
from shoal_wire.update import UpdateState
from sqlalchemy import select, update

from tests.unit.fleet.boards import NOW, Board, add_release, progress, reference, slot

LIMITS = ProbationLimits()


class Office:
    """People who start, approve and stop rollouts."""

    def __init__(self, sessions: Sessions, keys: OnlineKeys) -> None:
        self.sessions = sessions
        self.keys = keys

    def want(self, needed: int, *, by: str = "user:admin") -> None:
        with self.sessions() as session:
            set_approvals_needed(session, needed, by=by, now=NOW)

    def start(self, by: str, *, version: int = 1, person: str | None = None) -> Rollout:
        with self.sessions() as session:
            wanted = RolloutStart("notes", version, ("all",), LIMITS)
            return service.start(session, wanted, by=by, person=person, vault=self.keys.vault, now=NOW)

    def approve(self, rollout: Rollout, by: str, *, person: str | None = None) -> RolloutState:
        with self.sessions() as session:
            return approvals.approve(
                session, rollout.id, by=by, person=person, vault=self.keys.vault, now=NOW + 1
            ).state

    def abort(self, rollout: Rollout, by: str) -> None:
        with self.sessions() as session:
            service.abort(session, rollout.id, by=by, vault=self.keys.vault, now=NOW + 2)

    def report(
        self,
        board: Board,
        current: int,
        *,
        update: UpdateState | None = None,
        target: int = 1,
        order: tuple[int, int] = (0, 0),
    ) -> None:
        under_way = None if update is None else progress(reference("notes", target), update, order=order)
        reported = board.reported(order=order, slots=[slot(reference("notes", current))], update=under_way)
        with self.sessions() as session, writing(session):
            devices.record_reported(session, device_id=board.id, raw=board.sign_reported(reported), now=NOW)
            device = devices.find_device(session, board.id)
            service.follow(session, device=device, vault=self.keys.vault, now=NOW + 3)

    def state(self, rollout: Rollout) -> RolloutState:
        with self.sessions() as session:
            return service.find_rollout(session, rollout.id).state

    def device_states(self, rollout: Rollout) -> list[tuple[str, str]]:
        with self.sessions() as session:
            return [(row.state.value, row.reason) for row, _ in service.list_attempts(session, rollout.id)]

    def documents(self) -> int:
        """How many devices have a desired document."""
        with self.sessions() as session:
            return len(session.scalars(select(DesiredRow)).all())

    def recorded(self) -> list[tuple[str, str]]:
        with self.sessions() as session:
            entries = audit.list_entries(session, before=None, wanted=Filter(), limit=50)
        return [(entry.actor, entry.action) for entry in reversed(entries)]


@pytest.fixture
def office(sessions: Sessions, keys: OnlineKeys, board: Board) -> Office:
    for version in (1, 2):
        add_release(sessions, keys, name="notes", version=version)
    return Office(sessions, keys)


def test_without_a_policy_a_rollout_begins_at_once(office: Office) -> None:
    rollout = office.start("user:anna")
    assert (office.state(rollout), office.documents()) == (RolloutState.RUNNING, 1)
    assert office.recorded() == [("user:anna", "rollout.created"), ("user:anna", "rollout.started")]


def test_no_device_is_told_before_enough_others_approved(office: Office) -> None:
    office.want(2)
    rollout = office.start("user:anna")
    assert office.device_states(rollout) == [("waiting", "")]
    assert office.approve(rollout, "user:bert") is RolloutState.WAITING
    assert office.documents() == 0
    assert office.approve(rollout, "token:ci") is RolloutState.RUNNING
    assert (office.device_states(rollout), office.documents()) == ([("assigned", "")], 1)
    assert office.recorded()[1:] == [
        ("user:anna", "rollout.created"),
        ("user:bert", "rollout.approved"),
        ("token:ci", "rollout.approved"),
        ("token:ci", "rollout.started"),
    ]


def test_nobody_approves_their_own(office: Office) -> None:
    office.want(1)
    rollout = office.start("user:anna")
    with pytest.raises(WrongRole, match="user:anna started it, expected the approval of somebody else"):
        office.approve(rollout, "user:anna")
    assert (office.state(rollout), office.documents()) == (RolloutState.WAITING, 0)


@pytest.mark.parametrize(
    ("starter", "approver"),
    [
        (("user:anna", "user:anna"), ("token:ci", "user:anna")),
        (("token:ci", "user:anna"), ("user:anna", "user:anna")),
        (("token:ci", "user:anna"), ("token:cd", "user:anna")),
    ],
)
def test_a_token_counts_as_who_made_it(office: Office, starter: tuple[str, str], approver: tuple[str, str]) -> None:
    office.want(1)
    rollout = office.start(starter[0], person=starter[1])
    with pytest.raises(WrongRole, match="user:anna started it"):
        office.approve(rollout, approver[0], person=approver[1])
    assert office.approve(rollout, "token:night", person="user:bert") is RolloutState.RUNNING


def test_a_person_and_their_tokens_approve_once(office: Office) -> None:
    office.want(2)
    rollout = office.start("user:anna")
    for by in ("user:bert", "token:ci", "token:cd"):
        assert office.approve(rollout, by, person="user:bert") is RolloutState.WAITING
    assert office.approve(rollout, "user:carl") is RolloutState.RUNNING


def test_a_token_of_which_nobody_knows_the_maker_is_no_person(office: Office) -> None:
    office.start("token:old", person="")
    office.want(1)
    with pytest.raises(WrongRole, match="token:old: it isn't known who made this token"):
        office.start("token:old", person="")
    rollout = office.start("user:anna")
    with pytest.raises(WrongRole, match="token:old"):
        office.approve(rollout, "token:old", person="")


def test_one_that_nobody_answers_for_is_not_approved(office: Office, sessions: Sessions) -> None:
    office.want(1)
    rollout = office.start("user:anna")
    with sessions() as session, writing(session):
        session.execute(update(Rollout).values(created_by="token:old", person=""))
    with pytest.raises(Conflict, match="it isn't known who made token:old"):
        office.approve(rollout, "user:bert")


def test_approving_twice_counts_once(office: Office) -> None:
    office.want(2)
    rollout = office.start("user:anna")
    for _ in range(3):
        assert office.approve(rollout, "user:bert") is RolloutState.WAITING
    assert [action for _, action in office.recorded()].count("rollout.approved") == 1


@pytest.mark.parametrize("changed", ["release", "probation", "devices"])
def test_an_approval_is_void_once_anything_is_changed(office: Office, sessions: Sessions, changed: str) -> None:
    office.want(2)
    rollout = office.start("user:anna")
    office.approve(rollout, "user:bert")
    other = Board("garden")
    other.enrol(sessions)
    with sessions() as session, writing(session):
        if changed == "devices":
            session.execute(update(RolloutDevice).values(device_id=other.id))
        else:
            values = {"release": {"manifest_sha256": "0" * 64}, "probation": {"probation": '{"answers":1}'}}[changed]
            session.execute(update(Rollout).values(values))
    assert office.approve(rollout, "user:carl") is RolloutState.WAITING
    with sessions() as session:
        assert approvals.list_approvers(session, service.find_rollout(session, rollout.id)) == ["user:carl"]


def test_one_person_alone_stops_a_rollout_that_waits(office: Office) -> None:
    office.want(2)
    rollout = office.start("user:anna")
    office.abort(rollout, "user:bert")
    assert office.state(rollout) is RolloutState.ABORTED
    assert (office.device_states(rollout), office.documents()) == ([("aborted", "stopped by an operator")], 0)
    with pytest.raises(Conflict, match="is aborted, expected it to wait for approval"):
        office.approve(rollout, "user:carl")


def test_one_person_alone_stops_a_rollout_that_was_approved(office: Office) -> None:
    office.want(1)
    rollout = office.start("user:anna")
    office.approve(rollout, "user:bert")
    office.abort(rollout, "user:anna")
    assert office.state(rollout) is RolloutState.ABORTED


def test_a_policy_that_is_lowered_leaves_what_waits_as_it_was(office: Office, sessions: Sessions) -> None:
    office.want(2)
    rollout = office.start("user:anna")
    with sessions() as session:
        set_approvals_needed(session, 0, by="host:root", now=NOW, is_forced=True)
    assert office.approve(rollout, "user:bert") is RolloutState.WAITING
    assert office.approve(rollout, "user:carl") is RolloutState.RUNNING


def test_a_policy_that_is_raised_counts_for_what_waits(office: Office, sessions: Sessions) -> None:
    office.want(1)
    rollout = office.start("user:anna")
    office.want(2)
    assert office.approve(rollout, "user:bert") is RolloutState.WAITING
    with sessions() as session:
        assert find_approvals_needed(session) == 2
    assert ("user:admin", "policy.changed") in office.recorded()


def test_a_rollout_that_runs_can_not_be_approved(office: Office) -> None:
    rollout = office.start("user:anna")
    with pytest.raises(Conflict, match="is running, expected it to wait"):
        office.approve(rollout, "user:bert")


def test_a_release_below_the_floor_by_then_does_not_begin(office: Office, sessions: Sessions, keys: OnlineKeys) -> None:
    office.want(1)
    rollout = office.start("user:anna")
    add_release(sessions, keys, name="notes", version=3, floor=3)
    with pytest.raises(Refused, match="revoked by version 3"):
        office.approve(rollout, "user:bert")
    assert (office.state(rollout), office.documents()) == (RolloutState.WAITING, 0)


def test_a_device_that_was_revoked_meanwhile_is_left_out(office: Office, sessions: Sessions, board: Board) -> None:
    office.want(1)
    Board("garden").enrol(sessions)
    rollout = office.start("user:anna")
    with sessions() as session, writing(session):
        devices.find_device(session, board.id).revoked_at = NOW
    office.approve(rollout, "user:bert")
    assert sorted(office.device_states(rollout)) == [("aborted", "the device was revoked"), ("assigned", "")]


def test_reports_do_not_move_what_waits(office: Office, board: Board) -> None:
    office.want(1)
    rollout = office.start("user:anna")
    office.report(board, current=1)
    assert office.device_states(rollout) == [("waiting", "")]


def test_the_rollout_that_was_started_last_wins_over_one_that_still_waits(office: Office) -> None:
    office.want(1)
    older, newer = office.start("user:anna", version=1), office.start("user:anna", version=2)
    office.approve(newer, "user:bert")
    assert office.device_states(older) == [("aborted", f"rollout {newer.id} took its place")]
    assert office.state(older) is RolloutState.ABORTED


def test_one_that_begins_leaves_a_newer_one_waiting(office: Office) -> None:
    office.want(1)
    older, newer = office.start("user:anna", version=1), office.start("user:anna", version=2)
    office.approve(older, "user:bert")
    assert office.device_states(newer) == [("waiting", "")]
    office.approve(newer, "user:bert")
    assert office.device_states(older) == [("aborted", f"rollout {newer.id} took its place")]


def test_the_log_tells_an_operators_rollback_from_a_devices_own_fall_back(office: Office, board: Board) -> None:
    office.report(board, current=1)
    office.start("user:anna", version=2)
    office.report(board, current=1, update=UpdateState.FELL_BACK, target=2, order=(1, 1))
    assert office.recorded() == [
        ("user:anna", "rollout.created"),
        ("user:anna", "rollout.started"),
        (f"device:{board.id}", "device.fell_back"),
        ("fleet", "rollout.ended"),
    ]
    office.report(board, current=2, order=(1, 2))
    office.start("user:anna", version=1)
    assert office.recorded()[-1] == ("user:anna", "rollout.rolled_back")
