"""Which answers, events and counts wait for the fleet, and what of them is sent next?

Rows are numbered within a stream, which is one start of the daemon. A row is removed when the fleet acknowledged it, or
when the outbox is full: counts go first, the oldest first. What was dropped is a hole in the numbers, and the run after
a hole declares it lost; there is no other way for a number to be missing.

SQLite in WAL mode with synchronous=FULL: rows are on the disk when `write` returns. A memory card wears. So a row is
held in memory first, and one that the fleet acknowledged by then is never written; pages are small; and that rows in
the file were acknowledged is written with the next rows, or once there are many. After a power cut some are sent again,
and the fleet knows them by their numbers. A call may come from any one thread at a time.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from shoal_wire.messages import MAX_BATCH_BYTES, MAX_BATCH_ROWS

MAX_ROW_BYTES = MAX_BATCH_BYTES - 4096
"""A longer row would fit into no batch beside the batch's own fields."""

_LOG = logging.getLogger(__name__)
_FORMAT = 1
_ROW_OVERHEAD_BYTES = 100
_DROP_STEP = 64
_PAGE_BYTES = 1024
"""Of a new file. A transaction with one row writes 12 KB to ext4; SQLite's usual 4096 bytes make it 57 KB."""
_SETTLE_ROWS = 256
"""Acknowledged rows that may still lie in the file."""
_SCHEMA = """
CREATE TABLE stream (
    ordinal INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    next INTEGER NOT NULL DEFAULT 1,
    acknowledged INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE waiting (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    stream INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    is_count INTEGER NOT NULL,
    answer_id TEXT UNIQUE,
    body BLOB NOT NULL,
    UNIQUE (stream, sequence)
);
CREATE INDEX waiting_by_age ON waiting (is_count DESC, id);
"""


class NewRow(NamedTuple):
    """A row to keep. `is_count` marks telemetry, which is dropped first; an answer has its id."""

    body: bytes
    is_count: bool = False
    answer_id: str | None = None


class Head(NamedTuple):
    """The oldest stream that has something to send."""

    stream: str
    acknowledged: int
    last: int
    """Highest sequence that was given out in it."""


class Run(NamedTuple):
    """Rows of one stream without a hole between them: `first`, `first` + 1, …

    `lost` are the sequences, first and last, that are missing right before `first`.
    """

    stream: str
    first: int
    rows: tuple[bytes, ...]
    lost: tuple[int, int] | None

    @property
    def last(self) -> int:
        """The sequence up to which an acknowledgement covers this run."""
        return self.first + len(self.rows) - 1


class _Held(NamedTuple):
    """A row in memory."""

    sequence: int
    row: NewRow

    @property
    def size_bytes(self) -> int:
        return len(self.row.body) + _ROW_OVERHEAD_BYTES


class Outbox:
    """An outbox on disk, open for one stream."""

    def __init__(self, database: sqlite3.Connection, *, stream: str, limit_bytes: int) -> None:
        """Use `open_outbox`."""
        self._database = database
        self._limit_bytes = limit_bytes
        self.stream = stream
        """To which new rows belong."""
        self._ordinal = _start_stream(database, stream)
        self._next = 1
        self._held: list[_Held] = []
        """By number, without a hole; what lies in the file has lower ones."""
        self._unsettled: dict[str, int] = {}
        """Stream to the sequence that the fleet has, where the file doesn't say so yet."""
        size = "SELECT COALESCE(SUM(LENGTH(body)), 0) + COUNT(*) * ? FROM waiting"
        (self._size_bytes,) = database.execute(size, (_ROW_OVERHEAD_BYTES,)).fetchone()

    @property
    def size_bytes(self) -> int:
        """Bytes that count against the limit, of rows in the file."""
        return int(self._size_bytes)

    @property
    def held(self) -> int:
        """Rows that are in memory alone."""
        return len(self._held)

    def hold(self, rows: Sequence[NewRow]) -> list[int]:
        """Number rows, in memory as yet; returns the numbers. One that was numbered isn't numbered twice.

        The number of an answer that waits already is that of the one that waits, or 0 where that is in the file.

        Raises:
            sqlite3.Error: none of them is numbered.
        """
        waiting = {one.row.answer_id: one.sequence for one in self._held if one.row.answer_id is not None}
        waiting |= dict.fromkeys(self._find_written([row.answer_id for row in rows]), 0)
        numbers = []
        for row in rows:
            assert len(row.body) <= MAX_ROW_BYTES
            number = None if row.answer_id is None else waiting.get(row.answer_id)
            if number is None:
                number, self._next = self._next, self._next + 1
                self._held.append(_Held(number, row))
                if row.answer_id is not None:
                    waiting[row.answer_id] = number
            numbers.append(number)
        return numbers

    def write(self) -> None:
        """Put what is held on the disk, in one transaction, and drop the oldest rows where the file is full.

        Raises:
            sqlite3.Error: the rows are held still.
        """
        if not self._held and not self._unsettled:
            return
        with _transaction(self._database):
            size_bytes = self._size_bytes - self._settle()
            self._database.executemany(
                "INSERT INTO waiting (stream, sequence, is_count, answer_id, body) VALUES (?, ?, ?, ?, ?)",
                [
                    (self._ordinal, one.sequence, one.row.is_count, one.row.answer_id, one.row.body)
                    for one in self._held
                ],
            )
            size_bytes += sum(one.size_bytes for one in self._held)
            self._database.execute("UPDATE stream SET next = ? WHERE ordinal = ?", (self._next, self._ordinal))
            size_bytes -= self._drop(size_bytes - self._limit_bytes)
        self._size_bytes = size_bytes
        self._held.clear()
        self._unsettled.clear()

    def head(self) -> Head | None:
        """The oldest stream that isn't acknowledged to its end; None when everything is."""
        streams = self._database.execute(
            "SELECT name, acknowledged, CASE ordinal WHEN ? THEN ? ELSE next - 1 END AS last FROM stream"
            " WHERE acknowledged < last ORDER BY ordinal",
            (self._ordinal, self._next - 1),
        )
        for name, written, last in streams:
            acknowledged = self._unsettled.get(name, written)
            if acknowledged < last:
                return Head(name, acknowledged, last)
        return None

    def run(self, stream: str, *, after: int) -> Run | None:
        """What comes after that sequence, as much as fits into a batch; None when nothing does."""
        last = self._last(stream)
        if last is None or last <= after:
            return None
        first, size_bytes = last + 1, 0
        rows: list[bytes] = []
        for sequence, body in self._rows(stream, after=after):
            size_bytes += len(body) + 1
            if rows and (sequence != first + len(rows) or size_bytes > MAX_ROW_BYTES or len(rows) == MAX_BATCH_ROWS):
                break
            first = first if rows else sequence
            rows.append(body)
        lost = (after + 1, first - 1) if first > after + 1 else None
        return Run(stream, first, tuple(rows), lost)

    def covered(self, stream: str, *, sequence: int) -> int:
        """How far an acknowledgement goes in a stream.

        Of one that has ended, at most to the end of what was written: later rows were held when the power went. They
        are known to the fleet alone, or came again in a later stream.
        """
        last = self._last(stream)
        return sequence if last is None or stream == self.stream else min(sequence, last)

    def acknowledge(self, stream: str, *, sequence: int) -> bool:
        """Forget the rows that the fleet has; whether that was news. That of what was never given out isn't.

        Raises:
            sqlite3.Error: the file still holds them; they aren't sent again all the same.
        """
        last = self._last(stream)
        if last is None or sequence > last:
            return False
        ordinal, written = self._database.execute(
            "SELECT ordinal, acknowledged FROM stream WHERE name = ?", (stream,)
        ).fetchone()
        if self._unsettled.get(stream, written) >= sequence:
            return False
        self._unsettled[stream] = sequence
        if stream == self.stream:
            self._held = [one for one in self._held if one.sequence > sequence]
        (count,) = self._database.execute(
            "SELECT COUNT(*) FROM waiting WHERE stream = ? AND sequence <= ?", (ordinal, sequence)
        ).fetchone()
        if count >= _SETTLE_ROWS:
            self._write_settled()
        return True

    def close(self) -> None:
        """Let go of the file. What is held is gone."""
        with contextlib.suppress(sqlite3.Error):  # what the fleet has is sent again after the next start
            self._write_settled()
        self._database.close()

    def _last(self, stream: str) -> int | None:
        """Highest number that was given out in a stream; None where there is no such stream."""
        if stream == self.stream:
            return self._next - 1
        found = self._database.execute("SELECT next - 1 FROM stream WHERE name = ?", (stream,)).fetchone()
        return None if found is None else int(found[0])

    def _rows(self, stream: str, *, after: int) -> Iterator[tuple[int, bytes]]:
        yield from self._database.execute(
            "SELECT sequence, body FROM waiting JOIN stream ON stream.ordinal = waiting.stream"
            " WHERE stream.name = ? AND sequence > ? ORDER BY sequence LIMIT ?",
            (stream, after, MAX_BATCH_ROWS + 1),
        )
        if stream == self.stream:
            yield from ((one.sequence, one.row.body) for one in self._held if one.sequence > after)

    def _find_written(self, answer_ids: Sequence[str | None]) -> list[str]:
        """Of answers, those in the file that wait still."""
        found = []
        for answer_id in answer_ids:
            if answer_id is not None:
                found += self._database.execute(
                    "SELECT answer_id FROM waiting WHERE answer_id = ?", (answer_id,)
                ).fetchall()
        return [answer_id for (answer_id,) in found]

    def _write_settled(self) -> None:
        if not self._unsettled:
            return
        with _transaction(self._database):
            freed_bytes = self._settle()
        self._size_bytes -= freed_bytes
        self._unsettled.clear()

    def _settle(self) -> int:
        """Within a transaction, remove what was acknowledged; returns the bytes that this frees."""
        total_bytes = 0
        for stream, sequence in self._unsettled.items():
            (ordinal,) = self._database.execute("SELECT ordinal FROM stream WHERE name = ?", (stream,)).fetchone()
            covered = "FROM waiting WHERE stream = ? AND sequence <= ?"
            (freed_bytes,) = self._database.execute(
                f"SELECT COALESCE(SUM(LENGTH(body)), 0) + COUNT(*) * {_ROW_OVERHEAD_BYTES} {covered}",
                (ordinal, sequence),
            ).fetchone()
            self._database.execute(f"DELETE {covered}", (ordinal, sequence))
            self._database.execute("UPDATE stream SET acknowledged = ? WHERE ordinal = ?", (sequence, ordinal))
            total_bytes += freed_bytes
        return total_bytes

    def _drop(self, excess_bytes: int) -> int:
        """Remove the oldest rows, counts before others, until that many bytes are free; returns how many were."""
        freed_bytes, dropped = 0, 0
        while freed_bytes < excess_bytes:
            oldest = self._database.execute(
                "SELECT id, LENGTH(body) FROM waiting ORDER BY is_count DESC, id LIMIT ?", (_DROP_STEP,)
            ).fetchall()
            for identity, length in oldest:
                self._database.execute("DELETE FROM waiting WHERE id = ?", (identity,))
                freed_bytes += length + _ROW_OVERHEAD_BYTES
                dropped += 1
                if freed_bytes >= excess_bytes:
                    break
        if dropped:
            _LOG.warning("outbox: over its %d bytes, %d rows were dropped", self._limit_bytes, dropped)
        return freed_bytes


def open_outbox(path: Path, *, stream: str, limit_bytes: int) -> Outbox:
    """Open the outbox at `path` for a new stream. A file that SQLite can't read is put aside, as `…unreadable`.

    Raises:
        sqlite3.Error: the disk is full or broken.
    """
    try:
        return _open(path, stream=stream, limit_bytes=limit_bytes)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        _LOG.error("%s can't be read and is put aside: %s", path, error)
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + suffix).replace(path.with_name(f"{path.name}.unreadable{suffix}"))
        return _open(path, stream=stream, limit_bytes=limit_bytes)


def _open(path: Path, *, stream: str, limit_bytes: int) -> Outbox:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10)
    try:
        path.chmod(0o600)
        database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # a file that is there keeps its own
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute("PRAGMA cache_size = -512")
        database.execute("PRAGMA journal_size_limit = 4194304")
        (version,) = database.execute("PRAGMA user_version").fetchone()
        if version not in (0, _FORMAT):
            raise sqlite3.DatabaseError(f"expected format {_FORMAT}, found {version}")
        if version == 0:
            database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {_FORMAT}; COMMIT;")
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        return Outbox(database, stream=stream, limit_bytes=limit_bytes)
    except BaseException:
        database.close()
        raise


def _start_stream(database: sqlite3.Connection, stream: str) -> int:
    """The new stream's ordinal. Streams that are acknowledged to their end are forgotten."""
    with _transaction(database):
        database.execute("DELETE FROM stream WHERE acknowledged = next - 1")
        ordinal = database.execute("INSERT INTO stream (name) VALUES (?)", (stream,)).lastrowid
    assert ordinal is not None
    return ordinal


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:  # a COMMIT that failed may have rolled back already
            database.execute("ROLLBACK")
        raise
