"""Does the database keep what it was told to keep, and do writers wait for each other?"""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.access.models import ApiToken
from shoal_fleet.database import Sessions, make_sessions, open_engine, writing
from shoal_fleet.schema import all_tables
from sqlalchemy import func, select, text
from sqlalchemy.exc import IntegrityError


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    engine = open_engine(tmp_path / "fleet.db")
    all_tables().create_all(engine)
    yield make_sessions(engine)
    engine.dispose()


@pytest.mark.parametrize(
    ("pragma", "expected"),
    [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 10_000)],
)
def test_every_connection_is_durable_and_strict(sessions: Sessions, pragma: str, expected: object) -> None:
    with sessions() as session:
        assert session.scalar(text(f"PRAGMA {pragma}")) == expected


def test_failed_transaction_leaves_nothing(sessions: Sessions) -> None:
    with sessions() as session, pytest.raises(IntegrityError), writing(session):
        session.add(make_token("one"))
        session.flush()
        session.add(make_token("one"))
    assert count_tokens(sessions) == 0


def test_two_writers_that_read_first_both_succeed(sessions: Sessions) -> None:
    """With a deferred BEGIN, the second of them would fail at once, whatever the time that it may wait."""
    both_ready = threading.Barrier(2)
    failures: list[BaseException] = []

    def write(name: str) -> None:
        try:
            for number in range(20):
                both_ready.wait(10)
                with sessions() as session, writing(session):
                    session.scalar(select(func.count()).select_from(ApiToken))
                    session.add(make_token(f"{name}{number}"))
        except BaseException as error:
            failures.append(error)
            both_ready.abort()

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert count_tokens(sessions) == 40


def make_token(name: str) -> ApiToken:
    return ApiToken(name=name, secret_sha256=name, created_at=0.0)


def count_tokens(sessions: Sessions) -> int | None:
    with sessions() as session:
        return session.scalar(select(func.count()).select_from(ApiToken))
