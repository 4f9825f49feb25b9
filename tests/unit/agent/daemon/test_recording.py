"""Is an answer safe when its owner is told so, and is the disk left alone where the fleet has it by then?"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from shoal_agent.daemon.outbox import Outbox, open_outbox
from shoal_agent.daemon.recording import MAX_HELD, Recorder
from shoal_wire.messages import Ack, Answer, Event, ReleaseReference

STREAM = "a" * 32
REFERENCE = ReleaseReference("note-events", 1, "0" * 64)
LONG_S, SHORT_S = 600.0, 0.2
PATIENCE_S = 60.0


def make_answer(number: int) -> Answer:
    return Answer(
        answer_id=f"{number:064x}",
        at=0.0,
        source="sounds",
        item=f"{number}.wav",
        reference=REFERENCE,
        latency_ms=1.0,
        answer={"number": number},
    )


def make_ack(sequence: int, *, stream: str = STREAM) -> Ack:
    return Ack(device="d-test", stream=stream, sequence=sequence)


@asynccontextmanager
async def recording(folder: Path, *, hold_s: float) -> AsyncIterator[tuple[Recorder, asyncio.Event]]:
    """A recorder at work, and what it sets each time there is something to send."""
    has_rows = asyncio.Event()
    outbox = open_outbox(folder / "outbox.db", stream=STREAM, limit_bytes=1 << 30)
    recorder = Recorder(outbox, on_rows=has_rows.set, hold_s=hold_s)
    task = asyncio.create_task(recorder.serve())
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield recorder, has_rows
    finally:
        task.cancel()
        await asyncio.wait([task])
        outbox.close()


def written(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "outbox.db")) as reader:
        return int(reader.execute("SELECT COUNT(*) FROM waiting").fetchone()[0])


def test_an_answer_that_the_fleet_has_is_safe_and_leaves_the_disk_alone(tmp_path: Path) -> None:
    async def run() -> None:
        async with recording(tmp_path, hold_s=LONG_S) as (recorder, has_rows):
            storing = asyncio.create_task(recorder.store([make_answer(1), make_answer(2)]))
            await has_rows.wait()
            assert await recorder.acknowledge(make_ack(1)) == 1
            assert not storing.done()
            await recorder.acknowledge(make_ack(2))
            await storing
            assert written(tmp_path) == 0
        assert written(tmp_path) == 0

    asyncio.run(run())


def test_an_answer_that_the_fleet_does_not_take_is_written(tmp_path: Path) -> None:
    async def run() -> None:
        async with recording(tmp_path, hold_s=SHORT_S) as (recorder, _):
            await recorder.store([make_answer(1)])
            assert written(tmp_path) == 1
            await recorder.store([make_answer(1)])  # made again: it waits already
            assert written(tmp_path) == 1

    asyncio.run(run())


def test_acknowledgements_of_another_stream_make_nothing_safe(tmp_path: Path) -> None:
    async def run() -> None:
        async with recording(tmp_path, hold_s=LONG_S) as (recorder, has_rows):
            storing = asyncio.create_task(recorder.store([make_answer(1)]))
            await has_rows.wait()
            await recorder.acknowledge(make_ack(9, stream="b" * 32))
            await recorder.acknowledge(make_ack(9))  # of this one, but never given out
            assert not storing.done()
            storing.cancel()

    asyncio.run(run())


@pytest.mark.parametrize("count", [MAX_HELD, MAX_HELD + 1])
def test_many_answers_are_written_at_once(tmp_path: Path, count: int) -> None:
    async def run() -> None:
        async with recording(tmp_path, hold_s=LONG_S) as (recorder, _):
            await recorder.store([make_answer(number) for number in range(count)])
            assert written(tmp_path) == count

    asyncio.run(run())


def test_an_event_is_written_at_once_with_what_was_held(tmp_path: Path) -> None:
    async def run() -> None:
        async with recording(tmp_path, hold_s=LONG_S) as (recorder, _):
            storing = asyncio.create_task(recorder.store([make_answer(1)]))
            recorder.note(Event(at=0.0, name="started"))
            await storing
            assert written(tmp_path) == 2

    asyncio.run(run())


def test_what_is_held_is_written_at_the_end(tmp_path: Path) -> None:
    async def run() -> None:
        async with recording(tmp_path, hold_s=LONG_S) as (recorder, has_rows):
            storing = asyncio.create_task(recorder.store([make_answer(1)]))
            await has_rows.wait()
            assert written(tmp_path) == 0
            storing.cancel()
        assert written(tmp_path) == 1

    asyncio.run(run())


class FullDisk(Outbox):
    """Takes nothing until it is told to."""

    is_full = True

    def write(self) -> None:
        if self.is_full:
            raise sqlite3.OperationalError("database or disk is full")
        super().write()


def test_a_full_disk_loses_nothing_and_keeps_nothing_from_the_fleet(tmp_path: Path) -> None:
    async def run() -> None:
        outbox = open_outbox(tmp_path / "outbox.db", stream=STREAM, limit_bytes=1 << 30)
        outbox.__class__ = FullDisk
        assert isinstance(outbox, FullDisk)
        has_rows = asyncio.Event()
        recorder = Recorder(outbox, on_rows=has_rows.set, hold_s=0.0)
        task = asyncio.create_task(recorder.serve())
        async with asyncio.timeout(PATIENCE_S):
            first = asyncio.create_task(recorder.store([make_answer(1)]))
            await has_rows.wait()
            has_rows.clear()
            second = asyncio.create_task(recorder.store([make_answer(2)]))
            await has_rows.wait()  # numbered all the same, to be sent
            await recorder.acknowledge(make_ack(1))
            await first
            assert not second.done()
            outbox.is_full = False
            await second
            assert written(tmp_path) == 1
        task.cancel()
        await asyncio.wait([task])
        outbox.close()

    asyncio.run(run())
