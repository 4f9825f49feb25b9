"""Which worker runs a model, whatever happens to workers?

A worker that is gone is started again, after a pause that grows. When workers die too often, the next engine of the
model's format has its turn; when there is none left, the model has failed. A worker takes work only after it has
answered once. Nobody sleeps under a lock: whoever needs a worker starts it, the others wait, `close` wakes them all.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

from shoal_worker.errors import EngineMissing, ModelRefused, WorkerError
from shoal_worker.messages import Loaded

from shoal_agent.front.admission import megabytes, watermark_bytes
from shoal_agent.front.board_memory import read_room
from shoal_agent.front.crash_loop import WINDOW_S, CrashLoop
from shoal_agent.front.worker import LOAD_TIMEOUT_S, Array, Worker, WorkerOptions
from shoal_agent.front.worker_process import WorkerDied, WorkerEnded, WorkerLost

REPLACE_PAUSE_S = 600.0
"""Least time between two replacements of a worker that grew: a model whose inputs differ in size grows for a reason."""
BUSY_PATIENCE_S = 60.0
"""How long an idle moment is waited for. Without one it is done all the same: no item is lost by it."""
DRAIN_S = 60.0
NEWS_S = 1.0
"""How long the loss of a worker may take to be told by the thread that met it."""

Chore = Callable[[], None]


class Unavailable(Exception):
    """Nothing can be run on this model any more; what was to be run is as good as before."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that it takes to start a worker with the model. The descriptors belong to who made it."""

    interpreter: str
    engine: str
    model_format: str
    model_fds: tuple[int, ...]
    options: WorkerOptions
    warm_up: Mapping[str, Array]
    """Inputs of one run, which every worker must answer before it gets work."""
    deadline_s: float
    """For that run."""

    def start(self, *, timeout_s: float) -> Worker:
        """A worker that has answered once.

        Raises:
            WorkerError: the engine doesn't take the model, or the worker died, or it can't answer.
        """
        worker = Worker.start(
            self.interpreter,
            engine=self.engine,
            model_fd=self.model_fds[0],
            more_fds=self.model_fds[1:],
            options=self.options,
            model_format=self.model_format,
            timeout_s=timeout_s,
        )
        try:
            worker.run(self.warm_up, deadline_s=self.deadline_s)
            worker.hurry()
        except BaseException:
            worker.close()
            raise
        return worker


@dataclass(frozen=True, kw_only=True)
class Death:
    """A worker that ended although nobody wanted it to, or that couldn't be started again.

    `item_sha256` is empty where no item was being run.
    """

    engine: str
    engine_version: str
    reason: str
    exit_code: int | None
    """Below 0 for the number of a signal; None where it hung and was killed."""
    peak_bytes: int
    item_sha256: str = ""


class Watcher(Protocol):
    """Who hears what becomes of a model's workers; called from any thread, without a lock held."""

    def died(self, death: Death) -> None:
        """A worker was lost."""

    def noticed(self, name: str, detail: str) -> None:
        """Something that a person may want to know."""

    def stopped(self, reason: str) -> None:
        """No engine is left: the model answers nothing any more."""


class ModelWorkers:
    """The workers of one model, of which one answers. Threads may share it."""

    def __init__(self, recipes: Sequence[Recipe], *, index: int, worker: Worker, watcher: Watcher) -> None:
        """Use `start`."""
        self.deaths = 0
        self._recipes = list(recipes)
        self._index = index
        self._watcher = watcher
        self._loop = CrashLoop()
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._worker: Worker | None = worker
        self._info = worker.info
        self._is_starting = False
        self._failure = ""
        self._not_before = 0.0
        self._watermark_bytes = watermark_bytes(worker.measure())
        self._grown_since: float | None = None
        self._replaced_at = -REPLACE_PAUSE_S

    @classmethod
    def start(cls, recipes: Sequence[Recipe], *, watcher: Watcher, timeout_s: float = LOAD_TIMEOUT_S) -> Self:
        """Start a worker by the first recipe that works.

        Raises:
            WorkerError: none does.
        """
        refusals = []
        for index, recipe in enumerate(recipes):
            try:
                worker = _start_twice(recipe, timeout_s=timeout_s)
            except WorkerError as error:
                refusals.append(f"{recipe.engine}: {error}")
                continue
            for refusal in refusals:
                watcher.noticed("engine-refused", refusal)
            return cls(recipes, index=index, worker=worker, watcher=watcher)
        raise WorkerError("; ".join(refusals))

    @property
    def info(self) -> Loaded:
        """What runs the model, as the last worker said."""
        return self._info

    @property
    def threads(self) -> int:
        """Of a worker that is started now."""
        return self._recipes[self._index].options.threads

    def wait_ready(self) -> None:
        """Return once there is a worker, started by this call if need be.

        Raises:
            Unavailable: there will be none.
        """
        self._take()

    def run(
        self, feeds: Mapping[str, Array], *, deadline_s: float, item_sha256: str, is_first: bool
    ) -> dict[str, Array]:
        """Run the model, as `Worker.run` does.

        A worker that was gone before the first run of an item began is nobody's trouble: there is another one.

        Raises:
            WorkerLost: the worker died or hung in this run, or between this run of the item and the last.
            WorkerError: see `Worker.run`.
            Unavailable: the model was closed, or no engine is left.
        """
        while True:
            worker = self._take()
            try:
                return worker.run(feeds, deadline_s=deadline_s)
            except WorkerEnded:
                continue
            except WorkerLost as loss:
                is_suspect = loss.was_running or not is_first
                self._bury(worker, loss, item_sha256=item_sha256 if is_suspect else "")
                if is_suspect:
                    raise

    def held_bytes(self) -> int:
        """The memory that the worker holds."""
        worker = self._worker
        return worker.measure() if worker else 0

    def tend(self, *, now: float) -> Chore | None:
        """Look after the worker; what is to be done may take long, and is for the caller to run somewhere."""
        worker = self._worker
        if worker is None:
            return self._restart if not self._is_starting and not self._failure and now >= self._not_before else None
        try:
            worker.check()
        except WorkerLost as loss:
            self._bury(worker, loss, item_sha256="")
            return None
        held_bytes = worker.measure()
        if held_bytes <= self._watermark_bytes or now < self._replaced_at + REPLACE_PAUSE_S:
            self._grown_since = None
            return None
        self._grown_since = now if self._grown_since is None else self._grown_since
        if not worker.is_idle() and now < self._grown_since + BUSY_PATIENCE_S:
            return None
        self._replaced_at = now
        words = f"worker {worker.pid} ({self._info.engine}) grew to {megabytes(held_bytes)}, expected at most "
        self._watcher.noticed("worker-replaced", words + megabytes(self._watermark_bytes))
        return self.replace

    def use_threads(self, threads: int) -> None:
        """Go on with another share of the processors."""
        with self._changed:
            self._recipes = [
                replace(recipe, options=replace(recipe.options, threads=threads)) for recipe in self._recipes
            ]
        self.replace()

    def replace(self) -> None:
        """Put a fresh worker in the place of the one that answers: beside it where both fit, else after it."""
        with self._changed:
            old = self._worker
            if old is None or self._is_starting or self._closing.is_set():
                return
            self._is_starting = True
            is_beside = read_room().free_bytes > self._watermark_bytes
            if not is_beside:
                self._worker = None
        if not is_beside:
            old.close(drain_s=DRAIN_S)
        self._start_one(replaces=old if is_beside else None)

    def close(self) -> None:
        """End the worker; a run in progress may end first. Whoever waits for a worker gets Unavailable."""
        self._closing.set()
        with self._changed:
            worker, self._worker = self._worker, None
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_starting)
        if worker is not None:
            worker.close(drain_s=DRAIN_S)

    def _take(self) -> Worker:
        while True:
            with self._changed:
                while (worker := self._settled_worker()) is None and self._is_starting:
                    self._changed.wait()
                if worker is not None:
                    return worker
                self._is_starting = True
            self._closing.wait(max(0.0, self._not_before - time.monotonic()))
            self._start_one(replaces=None)

    def _settled_worker(self) -> Worker | None:
        """The worker that answers; None while there is none. Waits until whoever lost one has said so."""
        if self._worker is not None and self._worker.has_ended:
            self._changed.wait_for(lambda: self._worker is None or not self._worker.has_ended, timeout=NEWS_S)
            if self._worker is not None and self._worker.has_ended:
                self._worker = None
        if self._closing.is_set():
            raise Unavailable("the release was unloaded")
        if self._failure:
            raise Unavailable(self._failure)
        return self._worker

    def _restart(self) -> None:
        with contextlib.suppress(Unavailable):
            self._take()

    def _start_one(self, *, replaces: Worker | None) -> None:
        """Start a worker, which `_is_starting` has announced. One that it `replaces` serves on if this fails."""
        fresh = None
        recipe = self._recipes[self._index]
        try:
            if not self._closing.is_set():
                fresh = recipe.start(timeout_s=LOAD_TIMEOUT_S)
        except WorkerError as error:
            if replaces is not None:
                self._watcher.noticed("worker-not-replaced", f"{recipe.engine}: {error}")
            elif isinstance(error, EngineMissing | ModelRefused):
                self._use_next_engine(str(error))
            else:
                self._count_death(error, item_sha256="")
        with self._changed:
            self._is_starting = False
            useless = fresh
            if fresh is not None and not self._closing.is_set():
                useless, self._worker, self._info = self._worker, fresh, fresh.info
                self._watermark_bytes = watermark_bytes(fresh.measure())
            self._changed.notify_all()
        if useless is not None:
            useless.close(drain_s=DRAIN_S)

    def _bury(self, worker: Worker, loss: WorkerLost, *, item_sha256: str) -> None:
        self._count_death(loss, item_sha256=item_sha256)
        with self._changed:
            if self._worker is worker:
                self._worker = None
            self._changed.notify_all()

    def _count_death(self, error: WorkerError, *, item_sha256: str) -> None:
        now = time.monotonic()
        self.deaths += 1
        self._loop.note(item_sha256, now=now)
        self._not_before = now + self._loop.pause_s(now=now)
        self._watcher.died(
            Death(
                engine=self._recipes[self._index].engine,
                engine_version=self._info.engine_version,
                reason=str(error),
                exit_code=error.exit_code if isinstance(error, WorkerDied) else None,
                peak_bytes=error.peak_bytes if isinstance(error, WorkerLost) else 0,
                item_sha256=item_sha256,
            )
        )
        if self._loop.is_over(now=now):
            causes = self._loop.causes(now=now)
            self._use_next_engine(f"its workers died of {causes} causes within {WINDOW_S:.0f} s, at last: {error}")

    def _use_next_engine(self, why: str) -> None:
        with self._changed:
            given_up = self._recipes[self._index].engine
            if self._index + 1 == len(self._recipes):
                self._failure = f"{given_up}: {why}"
                self._changed.notify_all()
            else:
                self._index += 1
                self._loop = CrashLoop()
                self._not_before = 0.0
        if self._failure:
            self._watcher.stopped(self._failure)
        else:
            now_used = self._recipes[self._index].engine
            self._watcher.noticed("engine-changed", f"from {given_up} to {now_used}: {why}")


def _start_twice(recipe: Recipe, *, timeout_s: float) -> Worker:
    """A death while a model loads may have been anybody's doing: once more then."""
    try:
        return recipe.start(timeout_s=timeout_s)
    except WorkerDied:
        return recipe.start(timeout_s=timeout_s)
