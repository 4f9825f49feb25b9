"""Is a database rid of what it held before where that was noted, and is it tried again where that failed?"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from shoal_fleet.database import for_writing, make_sessions, open_engine, writing
from shoal_fleet.kek.scrubbing import note_due, scrub_if_due
from sqlalchemy import Engine, event, text

OLD = b"as it was under the key before" * 200


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A database that held more than it does now, whose users don't wait for each other."""
    engine = open_engine(tmp_path / "fleet.db")
    event.listen(engine, "connect", dont_wait)
    with for_writing(engine) as connection:
        connection.execute(text("CREATE TABLE secret (wrapped BLOB)"))
        connection.execute(text("INSERT INTO secret VALUES (:old)"), {"old": OLD})
    with for_writing(engine) as connection:
        connection.execute(text("DELETE FROM secret"))
    yield engine
    engine.dispose()


def dont_wait(connection: sqlite3.Connection, _entry: Any) -> None:
    connection.execute("PRAGMA busy_timeout = 0")


def holds_old(folder: Path) -> bool:
    return any(OLD[:100] in path.read_bytes() for path in folder.iterdir())


def note(engine: Engine) -> None:
    with make_sessions(engine)() as session, writing(session):
        note_due(session)


def test_what_was_noted_is_done(engine: Engine, tmp_path: Path) -> None:
    note(engine)
    assert holds_old(tmp_path)
    assert scrub_if_due(engine)
    assert not holds_old(tmp_path)


def test_nothing_is_done_unless_the_transaction_that_noted_it_was_committed(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), make_sessions(engine)() as session, writing(session):
        note_due(session)
        raise ZeroDivisionError
    assert scrub_if_due(engine)
    assert holds_old(tmp_path)


def test_a_database_in_use_is_told_and_tried_again(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    note(engine)
    with engine.connect() as reader:
        reader.execute(text("SELECT * FROM secret")).all()
        assert not scrub_if_due(engine)
    assert "can't be rid of rows" in caplog.text
    assert holds_old(tmp_path)
    assert scrub_if_due(engine)
    assert not holds_old(tmp_path)
