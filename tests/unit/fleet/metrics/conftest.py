"""What do tests of metrics start from?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.database import Sessions

from tests.unit.fleet.boards import Board, close_database, make_database


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "fleet.db"


@pytest.fixture
def sessions(database: Path) -> Iterator[Sessions]:
    made = make_database(database)
    yield made
    close_database(made)


@pytest.fixture
def board(sessions: Sessions) -> Board:
    made = Board("yard")
    made.enrol(sessions)
    return made
