"""When do rows get into the outbox, when to the disk, and when does their owner know that they are safe?

Answers and events are numbered within a tenth of a second, all that have come by then together; counts wait for those,
or for some seconds. They may be sent at once. An event is on the disk at once as well. An answer or a count is written
only where the fleet hasn't acknowledged it within some seconds, or where many wait, because a memory card wears: the
owner of an answer keeps what it was made of until then, so power that goes meanwhile costs an answer twice computed.
Everything that touches the outbox runs in one thread.
"""

import asyncio
import logging
import math
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from shoal_wire.encoding import encode
from shoal_wire.messages import Ack, Answer, Process, Row, Telemetry

from shoal_agent.daemon.backoff import Backoff
from shoal_agent.daemon.outbox import MAX_ROW_BYTES, NewRow, Outbox

GROUP_S = 0.1
COUNTS_S = 5.0
HOLD_S = 5.0
"""A row that the fleet hasn't acknowledged for so long is written."""
MAX_HELD = 32
"""Rows in memory that are written without waiting longer: a source waits for its answers to be safe."""
LAST_S = 5.0
_MAX_WAITING = 4096
"""Rows in memory while the disk takes none. Events and counts beyond that are dropped; the front bounds answers."""

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Recorder:
    """Puts rows into the outbox."""

    def __init__(self, outbox: Outbox, *, on_rows: Callable[[], None], hold_s: float = HOLD_S) -> None:
        """`on_rows` is called in the loop each time there is more to send."""
        self._outbox = outbox
        self._on_rows = on_rows
        self._hold_s = hold_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbox")
        self._urgent: list[tuple[NewRow, asyncio.Future[None] | None]] = []
        self._counts: list[NewRow] = []
        self._has_urgent = asyncio.Event()
        self._held = 0
        """Rows of the outbox that aren't on the disk."""
        self._write_at = math.inf
        """When what is held is to be on the disk, by the loop's clock."""
        self._retry_at = -math.inf
        """No write is tried before: the disk took nothing."""
        self._unsafe: list[tuple[int, asyncio.Future[None]]] = []
        """Number of an answer that is held, and who waits for it to be safe."""
        self._backoff = Backoff(first_s=1.0, most_s=30.0)

    def note(self, row: Row) -> None:
        """Keep an event at once, or a count after a while. Nobody waits for it."""
        is_count = isinstance(row, Telemetry | Process)
        waiting = self._counts if is_count else self._urgent
        if len(waiting) + self._held >= _MAX_WAITING:
            _LOG.warning("outbox: the disk takes nothing, a row is dropped")
        elif is_count:
            self._counts.append(NewRow(encode(row), is_count=True))
        else:
            self._urgent.append((NewRow(encode(row)), None))
            self._has_urgent.set()

    async def store(self, answers: Sequence[Answer]) -> None:
        """Keep answers; when this returns they are on the disk, or the fleet has them."""
        loop = asyncio.get_running_loop()
        waits = [loop.create_future() for _ in answers]
        rows = [NewRow(_encode_answer(answer), answer_id=answer.answer_id) for answer in answers]
        self._urgent += zip(rows, waits, strict=True)
        self._has_urgent.set()
        for wait in waits:
            await wait

    async def acknowledge(self, ack: Ack) -> int:
        """Take a verified acknowledgement; returns how far it goes."""

        def take(outbox: Outbox) -> tuple[int, int, bool]:
            covered = outbox.covered(ack.stream, sequence=ack.sequence)
            outbox.acknowledge(ack.stream, sequence=covered)
            return covered, outbox.held, ack.stream == outbox.stream

        covered, self._held, is_current = await self.in_outbox(take)
        if is_current:
            self._release(covered)
        return covered

    async def in_outbox(self, work: Callable[[Outbox], T]) -> T:
        """Run something with the outbox in its thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._outbox)

    async def serve(self) -> None:
        """Take rows until cancelled; what is waiting by then is written."""
        try:
            while True:
                try:
                    async with asyncio.timeout(self._patience_s()):
                        await self._has_urgent.wait()
                        await asyncio.sleep(GROUP_S)
                except TimeoutError:
                    pass
                await self._keep_whole()
        finally:
            await self._write_last()
            self._thread.shutdown(wait=True)

    def _patience_s(self) -> float:
        due_at = max(self._write_at, self._retry_at)
        return min(COUNTS_S, max(0.0, due_at - asyncio.get_running_loop().time()))

    async def _keep_whole(self) -> None:
        """What was begun is waited for, even when this is cancelled."""
        keeping = asyncio.ensure_future(self._keep())
        try:
            await asyncio.shield(keeping)
        except asyncio.CancelledError:
            await asyncio.wait([keeping], timeout=LAST_S)
            keeping.cancel()
            raise

    async def _keep(self) -> None:
        """Number what has come, and write where it is time."""
        now = asyncio.get_running_loop().time()
        try:
            if self._urgent or self._counts:
                self._write_at = min(self._write_at, await self._hold(now))
                self._on_rows()
            if self._held == 0:
                self._write_at = math.inf
            elif now >= max(self._write_at, self._retry_at):
                await self._write()
                self._backoff.reset()
        except sqlite3.OperationalError as error:
            wait_s = self._backoff.next_s()
            self._retry_at = now + wait_s
            waiting = self._held + len(self._urgent) + len(self._counts)
            _LOG.error("outbox: %d rows can't be written, next try in %.0f s: %s", waiting, wait_s, error)

    async def _hold(self, now: float) -> float:
        """Number what has come; returns when that is to be on the disk."""
        self._has_urgent.clear()
        urgent, counts = list(self._urgent), list(self._counts)
        rows = [row for row, _ in urgent] + counts
        numbers = await self.in_outbox(lambda outbox: outbox.hold(rows))
        del self._urgent[: len(urgent)], self._counts[: len(counts)]
        self._unsafe += [(number, wait) for number, (_, wait) in zip(numbers, urgent, strict=False) if wait is not None]
        self._held = await self.in_outbox(lambda outbox: outbox.held)
        self._release(0)
        has_event = any(row.answer_id is None for row, _ in urgent)
        return now if has_event or self._held >= MAX_HELD else now + self._hold_s

    async def _write(self) -> None:
        await self.in_outbox(lambda outbox: outbox.write())
        self._held, self._write_at = 0, math.inf
        self._release(max((number for number, _ in self._unsafe), default=0))

    def _release(self, number: int) -> None:
        """Who waits for a row up to that number needs to wait no longer."""
        for _, wait in (one for one in self._unsafe if one[0] <= number):
            if not wait.done():
                wait.set_result(None)
        self._unsafe = [one for one in self._unsafe if one[0] > number]

    async def _write_last(self) -> None:
        rows = [row for row, _ in self._urgent] + self._counts

        def write(outbox: Outbox) -> None:
            outbox.hold(rows)
            outbox.write()

        try:
            await self.in_outbox(write)
        except sqlite3.Error as error:
            _LOG.error("outbox: %d rows can't be written at the end: %s", len(rows) + self._held, error)


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
