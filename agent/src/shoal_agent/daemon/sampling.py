"""When does the fleet hear how fast this board answers and how much memory that takes?

Counts are taken at a steady pace while there is anything to count; memory goes with them in one batch, and by itself
now and then, so that a board without work costs little network and flash.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Protocol

from shoal_wire.messages import Process, Telemetry

from shoal_agent.configuration import TelemetrySetting
from shoal_agent.daemon.memory import read_memory
from shoal_agent.daemon.recording import Recorder
from shoal_agent.daemon.telemetry import Counted, Counts

FIRST_S = 3.0


class Front(Protocol):
    """What serves."""

    def counted(self) -> Iterable[Counted]:
        """Counts since loading."""


class Sampler:
    """Notes rows of counts and of memory."""

    def __init__(
        self,
        setting: TelemetrySetting,
        *,
        recorder: Recorder,
        front: Front,
        processes: Callable[[], list[tuple[str, int | None]]],
    ) -> None:
        """`processes` are names and ids, None where one doesn't run."""
        self._setting = setting
        self._recorder = recorder
        self._front = front
        self._processes = processes
        self._counts = Counts(now=time.time())

    async def serve(self) -> None:
        """Sample until cancelled."""
        await asyncio.sleep(min(FIRST_S, self._setting.interval_s))
        self._note_memory()
        noted_at = time.monotonic()
        while True:
            await asyncio.sleep(self._setting.interval_s)
            rows = self._counts.take(self._front.counted(), now=time.time())
            self._note(rows)
            if rows or time.monotonic() - noted_at >= self._setting.idle_interval_s:
                self._note_memory()
                noted_at = time.monotonic()

    def take_last(self, counted: list[Counted]) -> None:
        """The front ended with these; the next one counts from nothing."""
        self._note(self._counts.take(counted, now=time.time()))
        self._counts.start_anew()

    def _note(self, rows: list[Telemetry]) -> None:
        for row in rows:
            self._recorder.note(row)

    def _note_memory(self) -> None:
        for name, pid in self._processes():
            memory = read_memory(pid) if pid else None
            if memory:
                self._recorder.note(Process(at=time.time(), name=name, **memory._asdict()))
