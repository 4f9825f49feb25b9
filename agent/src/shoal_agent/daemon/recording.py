"""When are rows written to the outbox, and when does their owner know that they are?

Answers and events are written within a tenth of a second, all that have come by then in one transaction; counts wait
for those, or for some seconds, because a memory card wears. Everything that touches the outbox runs in one thread.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shoal_wire.encoding import encode
from shoal_wire.messages import Answer, Process, Row, Telemetry

from shoal_agent.daemon.backoff import Backoff
from shoal_agent.daemon.outbox import MAX_ROW_BYTES, NewRow, Outbox

GROUP_S = 0.1
COUNTS_S = 5.0
LAST_S = 5.0
_MAX_WAITING = 4096
"""Rows in memory while the disk takes none. Events and counts beyond that are dropped; the front bounds answers."""

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Recorder:
    """Puts rows into the outbox."""

    def __init__(self, outbox: Outbox, *, on_committed: Callable[[], None]) -> None:
        """`on_committed` is called in the loop after each transaction."""
        self._outbox = outbox
        self._on_committed = on_committed
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbox")
        self._urgent: list[tuple[NewRow, asyncio.Future[None] | None]] = []
        self._counts: list[NewRow] = []
        self._has_urgent = asyncio.Event()

    def note(self, row: Row) -> None:
        """Keep an event at once, or a count with the next transaction. Nobody waits for it."""
        is_count = isinstance(row, Telemetry | Process)
        waiting = self._counts if is_count else self._urgent
        if len(waiting) >= _MAX_WAITING:
            _LOG.warning("outbox: the disk takes nothing, a row is dropped")
        elif is_count:
            self._counts.append(NewRow(encode(row), is_count=True))
        else:
            self._urgent.append((NewRow(encode(row)), None))
            self._has_urgent.set()

    async def store(self, answers: Sequence[Answer]) -> None:
        """Keep answers; they are on the disk when this returns."""
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        rows = [NewRow(_encode_answer(answer), answer_id=answer.answer_id) for answer in answers]
        self._urgent += [(row, stored) for row in rows]
        self._has_urgent.set()
        if rows:
            await stored

    async def in_outbox(self, work: Callable[[Outbox], T]) -> T:
        """Run something with the outbox in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._outbox)

    async def serve(self) -> None:
        """Write until cancelled; what is waiting by then is written too."""
        try:
            while True:
                try:
                    async with asyncio.timeout(COUNTS_S):
                        await self._has_urgent.wait()
                        await asyncio.sleep(GROUP_S)
                except TimeoutError:
                    pass
                await self._commit_whole()
        finally:
            await self._commit_last()
            self._thread.shutdown(wait=True)

    async def _commit_whole(self) -> None:
        """A transaction that was begun is waited for, even when this is cancelled."""
        commit = asyncio.ensure_future(self._commit())
        try:
            await asyncio.shield(commit)
        except asyncio.CancelledError:
            await asyncio.wait([commit], timeout=LAST_S)
            commit.cancel()
            raise

    async def _commit(self) -> None:
        self._has_urgent.clear()
        urgent, counts = self._urgent, self._counts
        self._urgent, self._counts = [], []
        rows = [row for row, _ in urgent] + counts
        if not rows:
            return
        backoff = Backoff(first_s=1.0, most_s=30.0)
        while True:
            try:
                await self.in_outbox(lambda outbox: outbox.append(rows))
                break
            except sqlite3.OperationalError as error:
                wait_s = backoff.next_s()
                _LOG.error("outbox: %d rows can't be written, next try in %.0f s: %s", len(rows), wait_s, error)
                await asyncio.sleep(wait_s)
        for _, stored in urgent:
            if stored is not None and not stored.done():
                stored.set_result(None)
        self._on_committed()

    async def _commit_last(self) -> None:
        rows = [row for row, _ in self._urgent] + self._counts
        if rows:
            try:
                await self.in_outbox(lambda outbox: outbox.append(rows))
            except sqlite3.Error as error:
                _LOG.error("outbox: %d rows can't be written at the end: %s", len(rows), error)


def _encode_answer(answer: Answer) -> bytes:
    """The answer's row; one that is too long for a batch says so in place of what it says."""
    body = encode(answer)
    if len(body) <= MAX_ROW_BYTES:
        return body
    return encode(
        Answer(
            answer_id=answer.answer_id,
            at=answer.at,
            source=answer.source,
            item=answer.item,
            reference=answer.reference,
            latency_ms=answer.latency_ms,
            answer={"error": f"the answer has {len(body)} bytes, expected at most {MAX_ROW_BYTES}"},
        )
    )
