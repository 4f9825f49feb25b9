"""Does a board trust the authorities that its publisher signed, and them alone, and never lose its way by it?"""

from pathlib import Path

import pytest
from shoal_agent.updater.errors import Untrustworthy

from tests.faults.updater.attacked_repository import Board, Repository, make_authority


@pytest.fixture
def repository() -> Repository:
    return Repository()


@pytest.fixture
def board(repository: Repository, tmp_path: Path) -> Board:
    board = Board(tmp_path, repository)
    board.refresh()
    return board


def test_without_a_list_a_board_trusts_whom_it_did(board: Board) -> None:
    assert board.trusts() == board.first_authority
    assert not (board.records.state / "authorities.json").exists()


def test_those_that_are_named_are_trusted_and_others_forgotten(repository: Repository, board: Board) -> None:
    second, third = make_authority(), make_authority()
    for named in ([board.first_authority, second], [second, third], [third]):
        repository.name_authorities(*named)
        repository.publish("targets")
        board.refresh()
        assert board.trusts() == "".join(named)


def test_the_fleets_own_keys_can_not_name_any(repository: Repository, board: Board) -> None:
    publisher = repository.signers["targets"]
    repository.signers["targets"] = [*repository.signers["snapshot"], *repository.signers["timestamp"]]
    repository.name_authorities(make_authority())
    repository.publish("targets")
    with pytest.raises(Untrustworthy, match="was signed by 0/1 keys"):
        board.refresh()
    assert board.trusts() == board.first_authority
    repository.signers["targets"] = publisher


def test_a_list_by_which_no_server_answers_yet_counts_once_one_does(repository: Repository, board: Board) -> None:
    coming = make_authority()
    repository.shows = board.first_authority
    repository.name_authorities(coming)
    repository.publish("targets")
    board.refresh()
    assert board.trusts() == board.first_authority
    repository.shows = coming
    board.refresh()
    assert board.trusts() == coming


def test_what_a_power_cut_kept_from_being_trusted_is_trusted_at_the_next_look(
    repository: Repository, board: Board
) -> None:
    coming = make_authority()
    repository.name_authorities(coming)
    repository.publish("targets")
    board.refresh()
    (board.records.state / "authority.pem").write_text(board.first_authority)
    board.refresh()
    assert board.trusts() == coming


def test_a_list_that_is_signed_no_more_stays_in_force(repository: Repository, board: Board) -> None:
    coming = make_authority()
    repository.name_authorities(coming)
    repository.publish("targets")
    board.refresh()
    del repository.contents["keys/authorities.json"]
    repository.publish("targets")
    board.refresh()
    assert board.trusts() == coming
    assert (board.records.state / "authorities.json").exists()


@pytest.mark.parametrize(
    "pems", [[], ["nonsense"], [make_authority(is_authority=False)]], ids=["none", "nonsense", "no authority"]
)
def test_a_list_that_nobody_can_use_is_refused(repository: Repository, board: Board, pems: list[str]) -> None:
    repository.name_authorities(*pems)
    repository.publish("targets")
    with pytest.raises(Untrustworthy, match=r"keys/authorities\.json as it is signed now can't be used"):
        board.refresh()
    assert board.trusts() == board.first_authority
