"""How is a candidate loaded, checked and timed on this board?

Candidates stay loaded between their turns for as long as there is room, so that turns can follow one another quickly;
what was used longest ago goes first. Workers wait without spinning: one that has no turn costs memory only.
"""

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from shoal_wire.tuning import Candidate
from shoal_worker.errors import WorkerError

from shoal_agent.front.admission import ENGINE_BYTES, Peak, Room, megabytes, predict_peak
from shoal_agent.front.batching import run_prepared
from shoal_agent.front.bindings import AS_IT_IS, Bindings
from shoal_agent.front.board_memory import read_room
from shoal_agent.front.operations.errors import OperationError
from shoal_agent.front.operations.values import Prepared, Tensors
from shoal_agent.front.worker import LOAD_TIMEOUT_S, Worker, WorkerOptions
from shoal_agent.tuning.meters import Meter
from shoal_agent.tuning.task import Task

UNDER_WAY = 2
"""Items at once when the sustained rate is measured: one is prepared while the other is computed."""
RESERVE_BYTES = ENGINE_BYTES
"""What measuring leaves free in any case: an engine before any model, as much as another program's start takes."""

StartWorker = Callable[..., Worker]
"""As `Worker.start` is called."""


class CandidateFailed(Exception):
    """A candidate can't be loaded, answers wrongly, or failed in its turn; the message says which and why."""


@dataclass(frozen=True, kw_only=True)
class LoadedFiles:
    """A variant's files, each in a write-sealed memfd of the caller's."""

    model_format: str
    fds: tuple[int, ...]
    size_bytes: tuple[int, ...]
    measured_bytes: int = 0
    """Peak memory as the publisher measured it; 0 where nobody did."""
    bindings: Bindings = AS_IT_IS


class Turn(NamedTuple):
    """What one turn of a candidate showed."""

    latencies_ms: tuple[float, ...]
    answers_per_s: float | None = None
    """Sustained; None where only latency was asked for."""
    joules: float | None = None
    """For an answer; None also where the board has no meter."""
    placement: tuple[str, ...] = ()
    """Where the engine really ran it, in its own words."""


class Bench:
    """The candidates of one model on this board. Close it."""

    def __init__(
        self,
        variants: Mapping[str, LoadedFiles],
        *,
        task: Task,
        interpreters: Mapping[str, str],
        own: str,
        deadline_s: float,
        meter: Meter,
        start: StartWorker = Worker.start,
        room: Callable[[], Room] = read_room,
    ) -> None:
        """`own` is the interpreter of engines that `interpreters` doesn't name; an answer counts until `deadline_s`.

        `start` starts a worker, `room` says what memory is left.
        """
        self._variants = variants
        self._task = task
        self._interpreters = interpreters
        self._own = own
        self._deadline_s = deadline_s
        self._meter = meter
        self._start_worker = start
        self._read_room = room
        self._workers: OrderedDict[Candidate, Worker] = OrderedDict()
        self._peaks: dict[Candidate, int] = {}
        self._load_ms: dict[Candidate, float] = {}

    def check(self, candidate: Candidate, *, timeout_s: float) -> None:
        """Load a candidate and have it answer the golden cases.

        Raises:
            CandidateFailed: it can't, or its answers are wrong; it is ended.
        """
        try:
            wrong = self._task.check(
                lambda prepared: self._run(candidate, prepared, timeout_s=timeout_s), candidate=candidate
            )
        except (WorkerError, OperationError) as error:
            wrong = str(error)
        if wrong:
            self._end(candidate)
            raise CandidateFailed(wrong)

    def turn(self, candidate: Candidate, *, seconds: float, with_rate: bool) -> Turn:
        """Time a candidate for about that long, one item after the other; for half of it two at once if `with_rate`.

        Raises:
            CandidateFailed: it died or failed; it is ended.
        """
        part_s = seconds / 2 if with_rate else seconds
        try:
            worker = self._worker(candidate, timeout_s=LOAD_TIMEOUT_S)  # it may have made way for others
            latencies_ms = self._time_items(candidate, seconds=part_s)
            turn = (
                self._saturate(candidate, seconds=part_s, latencies_ms=latencies_ms)
                if with_rate
                else Turn(latencies_ms)
            )
            return turn._replace(placement=worker.info.placement)
        except (WorkerError, OperationError) as error:
            self._end(candidate)
            raise CandidateFailed(str(error)) from None

    def peak_bytes(self, candidate: Candidate) -> int:
        """The most memory that its workers held so far."""
        worker = self._workers.get(candidate)
        if worker is not None:
            worker.measure()
            self._peaks[candidate] = max(self._peaks.get(candidate, 0), worker.peak_bytes)
        return self._peaks.get(candidate, 0)

    def load_ms(self, candidate: Candidate) -> float:
        """From the start of the interpreter to a model that can answer, the last time."""
        return self._load_ms.get(candidate, 0.0)

    def drop(self, candidate: Candidate) -> None:
        """It has no more turns."""
        self._end(candidate)

    def close(self) -> None:
        """End all workers."""
        for candidate in list(self._workers):
            self._end(candidate)

    def _time_items(self, candidate: Candidate, *, seconds: float) -> tuple[float, ...]:
        """Latencies in ms of whole passes over the items, so that every turn has the same mix."""
        latencies_ms: list[float] = []
        end = time.perf_counter() + seconds
        while not latencies_ms or time.perf_counter() < end:
            for number in range(self._task.items):
                latencies_ms.append(self._answer(candidate, number) * 1000)
        return tuple(latencies_ms)

    def _saturate(self, candidate: Candidate, *, seconds: float, latencies_ms: tuple[float, ...]) -> Turn:
        """Count the answers within the deadline while there is always more to do, and the energy that they take."""
        numbers = itertools.count()
        self._meter.start()
        began = time.perf_counter()

        def work() -> int:
            in_time, is_first = 0, True
            while is_first or time.perf_counter() < began + seconds:
                is_first = False
                in_time += self._answer(candidate, next(numbers) % self._task.items) <= self._deadline_s
            return in_time

        try:
            with ThreadPoolExecutor(UNDER_WAY) as threads:
                futures = [threads.submit(work) for _ in range(UNDER_WAY)]
                answers = sum(future.result() for future in futures)
            elapsed_s = time.perf_counter() - began
        finally:
            joules = self._meter.stop()
        return Turn(latencies_ms, answers / elapsed_s, None if joules is None or not answers else joules / answers)

    def _answer(self, candidate: Candidate, number: int) -> float:
        began = time.perf_counter()
        self._task.answer(number, lambda prepared: self._run(candidate, prepared, timeout_s=LOAD_TIMEOUT_S))
        return time.perf_counter() - began

    def _run(self, candidate: Candidate, prepared: Prepared[Any], *, timeout_s: float) -> list[Tensors]:
        worker = self._worker(candidate, timeout_s=timeout_s)
        return run_prepared(
            prepared, batch=candidate.batch, run=lambda feeds: worker.run(feeds, deadline_s=self._deadline_s)
        )

    def _worker(self, candidate: Candidate, *, timeout_s: float) -> Worker:
        worker = self._workers.get(candidate)
        if worker is None:
            worker = self._start(candidate, timeout_s=timeout_s)
            self._workers[candidate] = worker
        self._workers.move_to_end(candidate)
        return worker

    def _start(self, candidate: Candidate, *, timeout_s: float) -> Worker:
        files = self._variants[candidate.variant]
        self._make_room(self._predict(candidate))
        began = time.perf_counter()
        worker = self._start_worker(
            self._interpreters.get(candidate.engine, self._own),
            engine=candidate.engine,
            model_fd=files.fds[0],
            more_fds=files.fds[1:],
            model_format=files.model_format,
            bindings=files.bindings,
            options=WorkerOptions(threads=candidate.threads, precision=candidate.precision, device=candidate.device),
            timeout_s=timeout_s,
        )
        self._load_ms[candidate] = (time.perf_counter() - began) * 1000
        return worker

    def _make_room(self, peak: Peak) -> None:
        """Whatever serves on this board stays: it is not for a measurement to run it out of memory.

        For as long as other candidates are loaded, one more worker of the biggest of them fits as well: an update may
        have to check a release like this one meanwhile.
        """
        while (room := self._read_room()).free_bytes < peak.needed_bytes + RESERVE_BYTES + self._biggest_loaded():
            if not self._workers:
                raise CandidateFailed(f"needs {peak} of memory beside {megabytes(RESERVE_BYTES)} in reserve; {room}")
            self._end(next(iter(self._workers)))

    def _biggest_loaded(self) -> int:
        """What a worker of the biggest loaded candidate is expected to need; 0 where none is loaded."""
        return max((self._predict(candidate).needed_bytes for candidate in self._workers), default=0)

    def _predict(self, candidate: Candidate) -> Peak:
        files = self._variants[candidate.variant]
        return predict_peak(measured_bytes=files.measured_bytes, file_bytes=files.size_bytes)

    def _end(self, candidate: Candidate) -> None:
        self.peak_bytes(candidate)
        worker = self._workers.pop(candidate, None)
        if worker is not None:
            worker.close()
