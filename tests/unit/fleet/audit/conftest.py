"""What do tests of the audit log start from? A migrated database: its triggers are part of the matter."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.database import Sessions, make_sessions, open_engine
from shoal_fleet.schema import migrate


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    engine = open_engine(tmp_path / "fleet.db")
    migrate(engine)
    yield make_sessions(engine)
    engine.dispose()
