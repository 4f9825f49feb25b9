"""For how long does metadata that its publisher dated ahead stop a board, once a taken-over fleet serves it?

The fleet itself takes none that is dated ahead. Each time there must be an end, and a way out before it.
"""

from pathlib import Path

import pytest
from shoal_agent.updater.errors import Untrustworthy

from tests.faults.updater.attacked_repository import BINS, DAY_S, NOW, Board, Repository

FAR = NOW + 50 * 365 * DAY_S


@pytest.fixture
def repository() -> Repository:
    return Repository()


@pytest.fixture
def board(repository: Repository, tmp_path: Path) -> Board:
    board = Board(tmp_path, repository)
    board.refresh()
    return board


def test_release_keys_ahead_stop_it_until_root_names_others(repository: Repository, board: Board) -> None:
    repository.date_ahead("targets", signed_at=FAR)
    with pytest.raises(Untrustworthy, match="expired"):
        board.refresh()
    assert board.trust().read_time().at == NOW + 365 * DAY_S, "no further than root lasts"
    repository.publish("targets")
    with pytest.raises(Untrustworthy, match="expired"):
        board.refresh()

    repository.replace_keys("targets")
    repository.publish("targets", *BINS)

    assert board.refresh().is_clock_behind is False
    assert board.trust().read_time().floor_at == NOW


def test_release_keys_ahead_stop_it_for_as_long_as_root_lasts(repository: Repository, board: Board) -> None:
    repository.date_ahead("targets", signed_at=FAR)
    with pytest.raises(Untrustworthy):
        board.refresh()
    board.clock = repository.now = NOW + 366 * DAY_S
    repository.publish("root", "targets", *BINS)
    assert board.refresh().trouble == ""


def test_root_keys_ahead_stop_it_until_others_follow(repository: Repository, board: Board) -> None:
    honest, repository.now = repository.now, FAR
    repository.date_ahead("root", signed_at=FAR)
    repository.now = honest
    repository.publish("targets", *BINS)
    with pytest.raises(Untrustworthy, match="expired"):
        board.refresh()
    assert board.trust().read_time().at >= FAR

    repository.replace_keys("root")
    repository.publish_online()

    assert board.refresh().is_clock_behind is False
    assert board.trust().read_time().floor_at == NOW
