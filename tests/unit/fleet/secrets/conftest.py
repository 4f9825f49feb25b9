"""What do tests of secrets start from?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.database import Sessions

from tests.unit.fleet.boards import Board, close_database, make_database


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)


@pytest.fixture
def board(sessions: Sessions) -> Board:
    made = Board("yard")
    made.enrol(sessions)
    return made
