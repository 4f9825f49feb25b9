"""How does the fleet keep rows so that what was committed survives a power cut?

SQLite in WAL mode with synchronous=FULL: with NORMAL, a power cut takes back what was committed. All times in tables
are Unix seconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine, MetaData, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.orm import DeclarativeBase, Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_MS = 10_000
"""How long a writer waits for another writer."""

Sessions = sessionmaker[Session]

_WRITES = "shoal_writes"


class Base(DeclarativeBase):
    """All tables of the fleet. Constraints have names, so that migrations can change them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def open_engine(path: Path) -> Engine:
    """Engine of the SQLite database at `path`; the file is made at the first connection."""
    engine = create_engine(f"sqlite:///{path}")
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", _begin)
    return engine


def make_sessions(engine: Engine) -> Sessions:
    """Maker of sessions whose rows can still be read after the commit."""
    return sessionmaker(engine, expire_on_commit=False)


@contextmanager
def writing(session: Session) -> Iterator[None]:
    """One transaction that writes: committed at the end, rolled back by an exception.

    SQLite takes its write lock at the start, as a reader that begins to write later may fail at once. The session must
    not be in a transaction yet. For reading alone use the session as it is.
    """
    with session.begin():
        session.connection(execution_options={_WRITES: True})
        yield


@contextmanager
def for_writing(engine: Engine) -> Iterator[Connection]:
    """A connection in one transaction that writes, as `writing`."""
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        yield connection


def _set_pragmas(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # the driver's own BEGIN comes too late to be IMMEDIATE
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
