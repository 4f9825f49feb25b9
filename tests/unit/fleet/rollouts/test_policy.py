"""Can nobody alone take the policy away that asks for somebody else's approval?"""

import pytest
from shoal_fleet.access.projects import create_project
from shoal_fleet.access.roles import EVERYWHERE
from shoal_fleet.audit import service as audit
from shoal_fleet.audit.service import Filter
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, NotFound, WrongRole
from shoal_fleet.rollouts.policy import (
    Policy,
    Proposal,
    approve_policy,
    find_approvals_needed,
    find_policy,
    set_approvals_needed,
)

from tests.unit.fleet.boards import NOW


class Board:
    """Of directors: they change the policy, each as themselves or by a token."""

    def __init__(self, sessions: Sessions) -> None:
        self.sessions = sessions
        self.now = NOW

    def set(self, approvals: int, by: str, *, person: str | None = None, project: str = EVERYWHERE) -> Policy:
        with self.sessions() as session:
            return set_approvals_needed(session, approvals, by=by, person=person, project=project, now=NOW)

    def approve(self, approvals: int, by: str, *, person: str | None = None, project: str = EVERYWHERE) -> Policy:
        self.now += 1
        with self.sessions() as session:
            return approve_policy(session, approvals, by=by, person=person, project=project, now=self.now)

    def needed(self, project: str = EVERYWHERE) -> int:
        with self.sessions() as session:
            return find_approvals_needed(session, project)


@pytest.fixture
def board(sessions: Sessions) -> Board:
    return Board(sessions)


def test_a_stricter_policy_counts_at_once(board: Board) -> None:
    assert board.set(1, "user:anna") == Policy(EVERYWHERE, 1, None)
    assert board.set(3, "user:anna") == Policy(EVERYWHERE, 3, None)
    assert board.needed() == 3


def test_a_laxer_one_needs_as_many_others_as_the_present_one_asks_for(board: Board) -> None:
    board.set(2, "user:anna")
    assert board.set(0, "user:anna") == Policy(EVERYWHERE, 2, Proposal(0, "user:anna", [], 2))
    assert board.approve(0, "user:bert") == Policy(EVERYWHERE, 2, Proposal(0, "user:anna", ["user:bert"], 2))
    assert board.needed() == 2
    assert board.approve(0, "user:carl") == Policy(EVERYWHERE, 0, None)
    assert board.needed() == 0


@pytest.mark.parametrize(
    ("by", "person"), [("user:anna", None), ("token:ci", "user:anna"), ("token:old", "")], ids=["self", "token", "old"]
)
def test_nobody_approves_their_own(board: Board, by: str, person: str | None) -> None:
    board.set(1, "user:bert")
    board.set(0, "token:cd", person="user:anna")
    with pytest.raises(WrongRole):
        board.approve(0, by, person=person)
    assert board.needed() == 1


def test_a_person_approves_once(board: Board) -> None:
    board.set(2, "user:anna")
    board.set(1, "user:anna")
    for by in ("user:bert", "token:ci", "user:bert"):
        board.approve(1, by, person="user:bert")
    assert board.needed() == 2


def test_approvals_are_for_what_was_proposed_and_for_nothing_else(board: Board) -> None:
    board.set(2, "user:anna")
    with pytest.raises(Conflict, match="expected 1 to be proposed, found nothing"):
        board.approve(1, "user:bert")
    board.set(1, "user:anna")
    board.approve(1, "user:bert")
    board.set(0, "user:anna")
    with pytest.raises(Conflict, match="expected 1 to be proposed, found 0"):
        board.approve(1, "user:carl")
    assert board.approve(0, "user:carl").proposal == Proposal(0, "user:anna", ["user:carl"], 2)


def test_setting_what_is_there_withdraws_a_proposal(board: Board) -> None:
    board.set(1, "user:anna")
    board.set(0, "user:anna")
    assert board.set(1, "user:bert") == Policy(EVERYWHERE, 1, None)


def test_a_project_may_be_stricter_than_the_fleet_and_never_laxer(board: Board, sessions: Sessions) -> None:
    with sessions() as session:
        create_project(session, "yard", now=NOW, actor="user:anna")
    board.set(1, "user:anna")
    board.set(2, "user:anna", project="yard")
    assert (board.needed("yard"), board.needed("default"), board.needed()) == (2, 1, 1)
    board.set(0, "user:anna", project="yard")
    for by in ("user:bert", "user:carl"):
        board.approve(0, by, project="yard")
    assert board.needed("yard") == 1
    with pytest.raises(NotFound, match="project 'nowhere'"):
        board.set(1, "user:anna", project="nowhere")


def test_on_the_server_itself_nobody_is_asked(board: Board, sessions: Sessions) -> None:
    board.set(8, "user:anna")
    with sessions() as session:
        set_approvals_needed(session, 1, by="host:root", now=NOW, is_forced=True)
    assert board.needed() == 1


def test_the_log_has_who_proposed_and_who_approved(board: Board, sessions: Sessions) -> None:
    board.set(1, "user:anna")
    board.set(0, "user:anna")
    board.approve(0, "user:bert")
    with sessions() as session:
        entries = audit.list_entries(session, before=None, wanted=Filter(action="policy"), limit=9)
        assert find_policy(session, EVERYWHERE).proposal is None
    assert [(entry.actor, entry.action, entry.detail["approvals"]) for entry in reversed(entries)] == [
        ("user:anna", "policy.changed", 1),
        ("user:anna", "policy.proposed", 0),
        ("user:bert", "policy.approved", 0),
        ("user:bert", "policy.changed", 0),
    ]
