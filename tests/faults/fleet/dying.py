"""How does a test end a piece of work right before its Nth write, as a power cut would?"""

import os
import sqlite3
import sys
from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event

KILLED = 77
_WRITING = ("INSERT", "UPDATE", "DELETE", "BEGIN IMMEDIATE")
_RAW = ("VACUUM", "PRAGMA user_version =", "PRAGMA wal_checkpoint")
"""Statements that are sent past SQLAlchemy."""
_FILE_EVENTS = frozenset({"os.rename", "os.remove", "os.mkdir"})


def dies_at(nth_write: int, work: Callable[[], object]) -> bool:
    """Do the work in a child that is gone right before its Nth write; False where it had fewer, and has ended."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _count_down(nth_write)
            work()
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, KILLED), f"the work failed before its write {nth_write}"
    return code == KILLED


def _count_down(left: int) -> None:
    """Statements and commits of SQL, and files that are made, written, moved or removed. All are counted by hooks."""

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os._exit(KILLED)

    def on_statement(*arguments: Any) -> None:
        if str(arguments[2]).startswith(_WRITING):
            count()

    def on_audit(name: str, arguments: tuple[Any, ...]) -> None:
        is_write = name == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if is_write or name in _FILE_EVENTS:
            count()

    def on_connect(connection: sqlite3.Connection, _entry: Any) -> None:
        connection.set_trace_callback(lambda statement: count() if statement.startswith(_RAW) else None)

    event.listen(Engine, "before_cursor_execute", on_statement)
    event.listen(Engine, "connect", on_connect)
    event.listen(Engine, "commit", lambda _connection: count())
    sys.addaudithook(on_audit)
