"""What do tests of tuning start from?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.database import Sessions

from tests.unit.fleet.boards import close_database, make_database


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    made = make_database(tmp_path / "fleet.db")
    yield made
    close_database(made)
