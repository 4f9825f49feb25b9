"""How is the database rid of rows as they were under an earlier wrapping key, which may have been lost to somebody?

SQLite leaves them in pages that are free and in its log. VACUUM writes the database anew without them, outside of any
transaction. That it is due is noted in the database's own `user_version`, in the transaction that changes the rows, so
that it is done later where power went between the two.
"""

import logging
import sqlite3

from sqlalchemy import Engine
from sqlalchemy.orm import Session

_log = logging.getLogger(__name__)


def note_due(session: Session) -> None:
    """Note that it must be done once the caller's transaction is committed."""
    session.connection().exec_driver_sql("PRAGMA user_version = 1")


def scrub_if_due(engine: Engine) -> bool:
    """Do it if it was noted; returns whether nothing is left to do. What can't be done now is told to the log."""
    connection = engine.raw_connection()  # VACUUM is refused within a transaction, and an engine begins one
    try:
        cursor = connection.cursor()
        if cursor.execute("PRAGMA user_version").fetchone()[0] == 0:
            return True
        cursor.execute("VACUUM")
        is_busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if is_busy:
            raise sqlite3.OperationalError("the log is in use")
        cursor.execute("PRAGMA user_version = 0")
        return True
    except sqlite3.OperationalError as error:
        _log.error(
            "the database can't be rid of rows as they were under the key-encryption key before: %s; the next start "
            "tries again, with the server stopped and as much free space as the database takes",
            error,
        )
        return False
    finally:
        connection.close()
