"""Are counts and memory noted as often as the board is told, and idle boards heard of seldom?"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

import msgspec
from shoal_agent.configuration import TelemetrySetting
from shoal_agent.daemon.outbox import open_outbox
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.sampling import Sampler
from shoal_agent.daemon.telemetry import Counted
from shoal_agent.front_messages import Health
from shoal_wire.histogram import Histogram
from shoal_wire.messages import Process, ReleaseReference, Row, Telemetry

PATIENCE_S = 60.0
REFERENCE = ReleaseReference(release="note-events", version=1, manifest_sha256="a" * 64)


class FakeFront:
    """Answers one item each time that it is asked, or none."""

    def __init__(self, *, has_work: bool) -> None:
        self._has_work = has_work
        self._answers = 0

    def counted(self) -> Iterable[Counted]:
        self._answers += self._has_work
        yield REFERENCE, health(self._answers)


def health(answers: int) -> Health:
    return Health(
        slot="note-events",
        manifest_sha256="a" * 64,
        answers=answers,
        errors=0,
        deaths=0,
        histogram=Histogram(keys=(1,), counts=(answers,), total=float(answers)) if answers else Histogram(),
    )


async def sample(path: Path, setting: TelemetrySetting, *, has_work: bool, memories: int) -> list[Row]:
    """Rows that are noted until there are so many of memory."""
    outbox = open_outbox(path, stream="a" * 32, limit_bytes=1 << 20)
    committed = asyncio.Event()
    recorder = Recorder(outbox, on_rows=committed.set)
    sampler = Sampler(
        setting,
        recorder=recorder,
        front=FakeFront(has_work=has_work),
        processes=lambda: [("daemon", 1), ("front", None)],
    )
    rows: list[Row] = []
    tasks = [asyncio.create_task(recorder.serve()), asyncio.create_task(sampler.serve())]
    async with asyncio.timeout(PATIENCE_S):
        while sum(isinstance(row, Process) for row in rows) < memories:
            await committed.wait()
            committed.clear()
            run = await recorder.in_outbox(lambda outbox: outbox.run("a" * 32, after=0))
            rows = [msgspec.json.decode(row, type=Row) for row in run.rows] if run else []
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    outbox.close()
    return rows


def test_memory_goes_with_counts(tmp_path: Path) -> None:
    setting = TelemetrySetting(interval_s=1.0, idle_interval_s=86_400.0)
    rows = asyncio.run(sample(tmp_path / "outbox.db", setting, has_work=True, memories=3))
    counts = [row for row in rows if isinstance(row, Telemetry)]
    assert len(counts) >= 2
    assert {row.answers for row in counts} == {1}
    assert {row.name for row in rows if isinstance(row, Process)} == {"daemon"}, "a process that isn't there has no row"


def test_board_without_work_is_measured_at_its_own_pace(tmp_path: Path) -> None:
    setting = TelemetrySetting(interval_s=1.0, idle_interval_s=2.0)
    rows = asyncio.run(sample(tmp_path / "outbox.db", setting, has_work=False, memories=3))
    assert all(isinstance(row, Process) for row in rows)
    times = [row.at for row in rows if isinstance(row, Process)]
    assert times[2] - times[1] >= 1.9
