"""Do rollouts start, follow reports and end as the rules say, with the documents that devices need?"""

import pytest
from msgspec.structs import replace
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.errors import BrokenState, Conflict, NotFound, Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.models import DesiredRow, Rollout, RolloutDevice
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.telemetry import service as telemetry
from shoal_wire.encoding import decode
from shoal_wire.grant import GrantContext, open_grant
from shoal_wire.messages import Desired, ProbationLimits, Reported
from shoal_wire.tuning import BoardKind
from shoal_wire.update import UpdateState
from sqlalchemy import update

from tests.unit.fleet.boards import (
    NOW,
    Board,
    add_release,
    assignment_for,
    make_keys,
    progress,
    reference,
    slot,
    weights_of,
)
from tests.unit.fleet.telemetry.rows import BOARD, LITERT, tuned

LIMITS = ProbationLimits(answers=7)


class Site:
    """A fleet with releases and boards, at the level of its services."""

    def __init__(self, sessions: Sessions, keys: OnlineKeys) -> None:
        self.sessions = sessions
        self.keys = keys

    def start(self, name: str, version: int, *names: str) -> Rollout:
        wanted = RolloutStart(name, version, names or ("all",), LIMITS)
        with self.sessions() as session:
            return service.start(session, wanted, by="user:anna", vault=self.keys.vault, now=NOW)

    def abort(self, rollout: Rollout) -> Rollout:
        with self.sessions() as session:
            return service.abort(session, rollout.id, by="user:anna", vault=self.keys.vault, now=NOW + 9)

    def report(self, board: Board, reported: Reported) -> None:
        with self.sessions() as session, writing(session):
            devices.record_reported(session, device_id=board.id, raw=board.sign_reported(reported), now=NOW)
            device = devices.find_device(session, board.id)
            service.follow(session, device=device, vault=self.keys.vault, now=NOW + 5)

    def desired(self, board: Board) -> Desired:
        with self.sessions() as session:
            row = session.get(DesiredRow, board.id)
            assert row is not None
            document = decode(row.document, Desired, what="desired")
            assert document.order == (row.epoch, row.generation)
            return document

    def attempt(self, rollout: Rollout, board: Board) -> RolloutDevice:
        with self.sessions() as session:
            row = session.get(RolloutDevice, (rollout.id, board.id))
            assert row is not None
            return row

    def state(self, rollout: Rollout, board: Board) -> tuple[str, str]:
        row = self.attempt(rollout, board)
        return row.state.value, row.reason

    def state_of_all(self, rollout: Rollout) -> str:
        with self.sessions() as session:
            return service.find_rollout(session, rollout.id).state.value


@pytest.fixture
def site(sessions: Sessions, keys: OnlineKeys) -> Site:
    for version in (1, 2, 3):
        add_release(sessions, keys, name="notes", version=version)
    add_release(sessions, keys, name="birds", version=1)
    return Site(sessions, keys)


def test_a_device_is_assigned_with_a_key_for_every_file(site: Site, board: Board) -> None:
    content_keys = add_release(site.sessions, site.keys, name="frogs", version=1, files=3)
    rollout = site.start("frogs", 1, board.name)
    desired = site.desired(board)
    assignment = assignment_for(desired, "frogs")
    assert (desired.device, desired.order) == (board.id, (1, 1))
    assert (assignment.version, assignment.manifest_sha256) == (1, reference("frogs", 1).manifest_sha256)
    assert assignment.probation == LIMITS
    context = GrantContext(release="frogs", version=1, recipient=board.id)
    opened = {
        grant.ciphertext_sha256: open_grant(grant, board.recipient, context=context) for grant in assignment.grants
    }
    assert opened == content_keys
    assert site.state(rollout, board) == ("assigned", "")
    assert site.state_of_all(rollout) == "running"


def report_verdict(site: Site, board: Board, kind: BoardKind) -> None:
    """The board measured version 1 of the notes."""
    found = tuned(
        replace(LITERT, variant="only"), release=reference("notes", 1), files=(weights_of("notes", 1),), board=kind
    )
    with site.sessions() as session:
        telemetry.commit_batch(session, board.plain_batch(first=1, rows=[found]), now=NOW)


@pytest.mark.parametrize(
    ("measured_on", "reported", "engines"),
    [
        (BOARD, BOARD, ["litert"]),
        (BOARD, None, []),
        (BOARD, replace(BOARD, processors=2), []),
        (replace(BOARD, is_emulated=True), BOARD, []),
        (replace(BOARD, is_emulated=True), replace(BOARD, is_emulated=True), []),
    ],
)
def test_an_assignment_tells_what_boards_of_that_kind_found_out(
    site: Site, board: Board, measured_on: BoardKind, reported: BoardKind | None, engines: list[str]
) -> None:
    elder = Board("elder")
    elder.enrol(site.sessions)
    report_verdict(site, elder, measured_on)
    site.report(board, board.reported(kind=reported))
    site.start("notes", 1, board.name)
    site.start("birds", 1, board.name)
    desired = site.desired(board)
    assert [known.candidate.engine for known in assignment_for(desired, "notes").known] == engines
    assert assignment_for(desired, "birds").known == ()


def test_a_device_that_goes_back_is_told_what_is_known_of_the_old_release(site: Site, board: Board) -> None:
    report_verdict(site, board, BOARD)
    old, new = reference("notes", 1), reference("notes", 2)
    site.start("notes", 2, board.name)
    update = progress(new, UpdateState.FELL_BACK, order=(1, 1), reason="too slow")
    site.report(board, board.reported(order=(1, 1), slots=[slot(old)], update=update, kind=BOARD))
    assert [known.boards for known in assignment_for(site.desired(board), "notes").known] == [1]


def test_all_means_every_device_that_is_not_revoked(site: Site, board: Board) -> None:
    revoked, other = Board("old"), Board("roof")
    revoked.enrol(site.sessions, revoked_at=NOW)
    other.enrol(site.sessions)
    rollout = site.start("notes", 1)
    with site.sessions() as session:
        found = [device.id for _, device in service.list_attempts(session, rollout.id)]
    assert found == [other.id, board.id]


def test_a_device_named_twice_is_assigned_once(site: Site, board: Board) -> None:
    rollout = site.start("notes", 1, board.name, board.id)
    with site.sessions() as session:
        assert len(service.list_attempts(session, rollout.id)) == 1


@pytest.mark.parametrize(
    ("name", "version", "names", "error"),
    [
        ("notes", 9, ("yard",), NotFound),
        ("nothing", 1, ("yard",), NotFound),
        ("notes", 1, ("nobody",), NotFound),
        ("notes", 1, ("all", "yard"), NotFound),
        ("notes", 1, ("d-old",), Refused),
    ],
)
def test_refuses_what_is_not_there(
    site: Site, board: Board, name: str, version: int, names: tuple[str, ...], error: type[Exception]
) -> None:
    Board("old").enrol(site.sessions, revoked_at=NOW)
    with pytest.raises(error):
        site.start(name, version, *names)
    with site.sessions() as session:
        assert service.list_rollouts(session, limit=9) == []
        assert session.get(DesiredRow, board.id) is None


def test_refuses_a_rollout_to_nobody(site: Site) -> None:
    with pytest.raises(Refused, match="at least one device"):
        site.start("notes", 1)


def test_refuses_a_release_below_the_floor_that_a_later_one_sets(site: Site, board: Board) -> None:
    add_release(site.sessions, site.keys, name="notes", version=4, floor=3)
    with pytest.raises(Refused, match="revoked by version 4, which sets the floor of the model notes to 3"):
        site.start("notes", 2)
    site.start("notes", 3)


def test_refuses_a_document_that_the_broker_would_not_take(site: Site, board: Board) -> None:
    add_release(site.sessions, site.keys, name="giant", version=1, files=1500)
    with pytest.raises(Refused, match="too many files"):
        site.start("giant", 1)


def test_generations_and_grant_counters_grow_with_each_document(site: Site, board: Board) -> None:
    counters = []
    for version in (1, 2, 1):
        site.start("notes", version)
        counters.append({grant.counter for grant in assignment_for(site.desired(board), "notes").grants})
    assert site.desired(board).order == (1, 3)
    assert counters == [{1}, {2}, {3}]


def test_the_first_document_is_above_what_the_device_has_seen_of_an_earlier_fleet(site: Site, board: Board) -> None:
    site.report(board, board.reported(order=(3, 41)))
    site.start("notes", 1)
    assert site.desired(board).order == (3, 42)


def test_other_models_of_the_device_stay_as_they_are(site: Site, board: Board) -> None:
    site.start("birds", 1)
    birds = assignment_for(site.desired(board), "birds")
    site.start("notes", 1)
    site.start("notes", 2)
    desired = site.desired(board)
    assert [one.release for one in desired.assignments] == ["birds", "notes"]
    assert assignment_for(desired, "birds") == birds
    assert assignment_for(desired, "notes").version == 2


def test_reports_move_a_device_to_success_and_end_the_rollout(site: Site, board: Board) -> None:
    rollout = site.start("notes", 2)
    target, order = reference("notes", 2), (1, 1)
    seen = []
    for state in (UpdateState.FETCHING, UpdateState.PROBATION, UpdateState.COMMITTED):
        current = reference("notes", 1 if state is UpdateState.FETCHING else 2)
        site.report(
            board, board.reported(order=order, slots=[slot(current)], update=progress(target, state, order=order))
        )
        seen.append((site.state(rollout, board)[0], site.state_of_all(rollout)))
    assert seen == [("updating", "running"), ("updating", "running"), ("succeeded", "succeeded")]
    with site.sessions() as session:
        assert service.find_rollout(session, rollout.id).finished_at == NOW + 5
    assert site.desired(board).order == order


def test_a_device_that_went_back_is_told_to_keep_what_it_went_back_to(site: Site, board: Board) -> None:
    rollout = site.start("notes", 3)
    fell_back = board.reported(
        order=(1, 1),
        slots=[slot(reference("notes", 2), refused=[1])],
        update=progress(reference("notes", 3), UpdateState.FELL_BACK, order=(1, 1), reason="too slow"),
    )
    site.report(board, fell_back)
    assert site.state(rollout, board) == ("failed", "too slow")
    assert site.state_of_all(rollout) == "failed"
    desired = site.desired(board)
    assert desired.order == (1, 2)
    assert assignment_for(desired, "notes").version == 2


def test_a_report_that_comes_again_changes_nothing(site: Site, board: Board) -> None:
    rollout = site.start("notes", 3)
    update = progress(reference("notes", 3), UpdateState.REFUSED, order=(1, 1), reason="golden case")
    report = board.reported(order=(1, 1), slots=[slot(reference("notes", 2))], update=update)
    for _ in range(3):
        site.report(board, report)
    assert site.desired(board).order == (1, 2)
    assert site.state(rollout, board) == ("failed", "golden case")


def test_a_report_with_a_lower_counter_is_ignored(site: Site, board: Board) -> None:
    rollout = site.start("notes", 2)
    target = reference("notes", 2)
    old = board.reported(
        order=(1, 1), slots=[slot(target)], update=progress(target, UpdateState.COMMITTED, order=(1, 1))
    )
    site.report(board, board.reported(order=(1, 0), slots=[slot(reference("notes", 1))]))
    site.report(board, old)
    assert site.state(rollout, board) == ("assigned", "")


def test_a_first_release_that_fails_leaves_the_device_without_one(site: Site, board: Board) -> None:
    rollout = site.start("notes", 1)
    update = progress(reference("notes", 1), UpdateState.REFUSED, order=(1, 1), reason="no memory")
    site.report(board, board.reported(order=(1, 1), update=update))
    assert site.state(rollout, board) == ("failed", "no memory")
    assert site.desired(board).assignments == ()


def test_a_device_that_keeps_a_release_unknown_here_is_assigned_none(site: Site, board: Board) -> None:
    site.start("notes", 2)
    update = progress(reference("notes", 2), UpdateState.FELL_BACK, order=(1, 1), reason="too slow")
    site.report(board, board.reported(order=(1, 1), slots=[slot(reference("notes", 99))], update=update))
    assert site.desired(board).assignments == ()


def test_a_failure_is_kept_also_where_the_fleet_has_lost_its_key(site: Site, board: Board) -> None:
    rollout = site.start("notes", 2)
    site.keys = make_keys()
    update = progress(reference("notes", 2), UpdateState.FELL_BACK, order=(1, 1), reason="too slow")
    site.report(board, board.reported(order=(1, 1), slots=[slot(reference("notes", 1))], update=update))
    assert site.state(rollout, board) == ("failed", "too slow")
    assert site.desired(board).assignments == ()
    with pytest.raises(BrokenState, match="doesn't open under"):
        site.start("notes", 1)


def test_the_rollout_goes_on_until_its_last_device_is_done(site: Site, board: Board) -> None:
    other = Board("roof")
    other.enrol(site.sessions)
    rollout = site.start("notes", 1)
    target = reference("notes", 1)
    for one, expected in ((board, "running"), (other, "succeeded")):
        update = progress(target, UpdateState.COMMITTED, order=(1, 1))
        site.report(one, one.reported(order=(1, 1), slots=[slot(target)], update=update))
        assert site.state_of_all(rollout) == expected


def test_a_newer_rollout_of_the_same_model_takes_the_place_of_the_older(site: Site, board: Board) -> None:
    older, aside = site.start("notes", 1), site.start("birds", 1)
    newer = site.start("notes", 2)
    assert site.state(older, board) == ("aborted", f"rollout {newer.id} took its place")
    assert site.state_of_all(older) == "aborted"
    assert site.state(aside, board) == ("assigned", "")
    assert site.state(newer, board) == ("assigned", "")


def test_abort_sends_a_device_on_probation_back_and_leaves_the_finished_alone(site: Site, board: Board) -> None:
    done = Board("roof")
    done.enrol(site.sessions)
    rollout = site.start("notes", 2)
    old, new = reference("notes", 1), reference("notes", 2)
    update = progress(new, UpdateState.COMMITTED, order=(1, 1))
    site.report(done, done.reported(order=(1, 1), slots=[slot(new)], update=update))
    update = progress(new, UpdateState.PROBATION, order=(1, 1))
    site.report(board, board.reported(order=(1, 1), slots=[slot(new, previous=old)], update=update))
    assert site.abort(rollout).state.value == "aborted"
    assert site.state(rollout, board) == ("aborted", "stopped by an operator")
    assert site.state(rollout, done) == ("succeeded", "")
    assert assignment_for(site.desired(board), "notes").version == 1
    assert site.desired(board).order == (1, 2)
    assert site.desired(done).order == (1, 1)


def test_abort_takes_the_release_away_from_a_device_that_never_reported(site: Site, board: Board) -> None:
    rollout = site.start("notes", 2)
    site.abort(rollout)
    assert site.desired(board).assignments == ()
    assert site.desired(board).order == (1, 2)


def test_a_report_after_the_abort_does_not_revive_the_attempt(site: Site, board: Board) -> None:
    rollout = site.start("notes", 2)
    site.abort(rollout)
    target = reference("notes", 2)
    update = progress(target, UpdateState.COMMITTED, order=(1, 1))
    site.report(board, board.reported(order=(1, 1), slots=[slot(target)], update=update))
    assert site.state(rollout, board)[0] == "aborted"


def test_only_a_running_rollout_can_be_aborted(site: Site, board: Board) -> None:
    rollout = site.start("notes", 2)
    site.abort(rollout)
    with pytest.raises(Conflict, match="aborted already"):
        site.abort(rollout)
    with site.sessions() as session, pytest.raises(NotFound):
        service.abort(session, 77, by="user:anna", vault=site.keys.vault, now=NOW)


def test_a_device_revoked_under_way_does_not_keep_the_rollout_open(site: Site, board: Board) -> None:
    rollout = site.start("notes", 2)
    with site.sessions() as session:
        devices.revoke(session, board.id, actor="user:anna", now=NOW)
        service.drop_revoked(session, now=NOW)
        service.drop_revoked(session, now=NOW)
    assert site.state(rollout, board) == ("aborted", "the device was revoked")
    assert site.state_of_all(rollout) == "aborted"


def test_of_two_who_move_a_device_one_does(site: Site, board: Board) -> None:
    """The report is judged from an old view of the row, as by a second worker; the operator was faster."""
    rollout = site.start("notes", 2)
    target = reference("notes", 2)
    with site.sessions() as session, writing(session):
        update_ = progress(target, UpdateState.REFUSED, order=(1, 1), reason="late")
        raw = board.sign_reported(board.reported(order=(1, 1), update=update_))
        devices.record_reported(session, device_id=board.id, raw=raw, now=NOW)
        device = devices.find_device(session, board.id)
        row = session.get(RolloutDevice, (rollout.id, board.id))
        assert row is not None and row.state.value == "assigned"
        session.execute(
            update(RolloutDevice).values(state="aborted", reason="faster").execution_options(synchronize_session=False)
        )
        service.follow(session, device=device, vault=site.keys.vault, now=NOW)
    assert site.state(rollout, board) == ("aborted", "faster")
    assert site.desired(board).order == (1, 1)
