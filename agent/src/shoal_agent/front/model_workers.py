"""Which worker runs a model, whatever happens to workers?

A worker that is gone is started again, after a pause that grows. When workers die too often, the next engine of the
model's format has its turn; when there is none left, the model has failed. A worker takes work only after it has
answered once. Nobody sleeps under a lock: whoever needs a worker starts it, the others wait, `close` wakes them all.
Where a spare is kept (`spare`), it takes the place of a worker that is gone at once.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self

from shoal_worker.errors import EngineMissing, ModelRefused, WorkerError
from shoal_worker.messages import Loaded

from shoal_agent.front.admission import Peak, megabytes, watermark_bytes
from shoal_agent.front.bindings import AS_IT_IS, Bindings
from shoal_agent.front.board_memory import read_room
from shoal_agent.front.crash_loop import WINDOW_S, CrashLoop
from shoal_agent.front.spare import Spare
from shoal_agent.front.worker import LOAD_TIMEOUT_S, Array, Ran, Worker, WorkerOptions
from shoal_agent.front.worker_process import WorkerDied, WorkerEnded, WorkerLost

REPLACE_PAUSE_S = 600.0
"""Least time between two replacements of a worker that grew: a model whose inputs differ in size grows for a reason."""
BUSY_PATIENCE_S = 60.0
"""How long an idle moment is waited for. Without one it is done all the same: no item is lost by it."""
DRAIN_S = 60.0
NEWS_S = 1.0
"""How long the loss of a worker may take to be told by the thread that met it."""
UNLOADED = "the release was unloaded"

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
    """Inputs of one run, as the model's signature has them, which every worker must answer before it gets work."""
    deadline_s: float
    """For that run."""
    bindings: Bindings = AS_IT_IS
    """Of the variant whose files these are."""
    most_threads: int | None = None
    """However large the model's share of the processors is; None where nobody found fewer to be better."""
    batch: int = 1
    """Calls of one item that are given to the model at once."""

    def with_share(self, threads: int) -> "Recipe":
        """The same with another share of the processors."""
        most = threads if self.most_threads is None else min(threads, self.most_threads)
        if most == self.options.threads:
            return self
        return replace(self, options=replace(self.options, threads=most))

    def start(self, *, timeout_s: float, is_beside: bool) -> Worker:
        """A worker that has answered once.

        Where it is started beside one that answers, it leaves that one the processors, as the options say; else
        somebody waits for it.

        Raises:
            WorkerError: the engine doesn't take the model, or the worker died, or it can't answer.
        """
        worker = Worker.start(
            self.interpreter,
            engine=self.engine,
            model_fd=self.model_fds[0],
            more_fds=self.model_fds[1:],
            options=self.options if is_beside else replace(self.options, load_nice=0),
            model_format=self.model_format,
            bindings=self.bindings,
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
        self._spare = Spare(notice=watcher.noticed)

    @classmethod
    def start(
        cls, recipes: Sequence[Recipe], *, watcher: Watcher, timeout_s: float = LOAD_TIMEOUT_S, is_beside: bool = False
    ) -> Self:
        """Start a worker by the first recipe that works; see `Recipe.start` for `is_beside`.

        Raises:
            ModelRefused: every engine refuses the model.
            WorkerError: none works.
        """
        refusals, is_models_fault = [], bool(recipes)
        for index, recipe in enumerate(recipes):
            try:
                worker = _start_twice(recipe, timeout_s=timeout_s, is_beside=is_beside)
            except WorkerError as error:
                refusals.append(f"{recipe.engine}: {error}")
                is_models_fault = is_models_fault and isinstance(error, ModelRefused)
                continue
            for refusal in refusals:
                watcher.noticed("engine-refused", refusal)
            return cls(recipes, index=index, worker=worker, watcher=watcher)
        raise (ModelRefused if is_models_fault else WorkerError)("; ".join(refusals))

    @property
    def info(self) -> Loaded:
        """What runs the model, as the last worker said."""
        return self._info

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """By which workers may be started, in the order in which they are tried."""
        return tuple(self._recipes)

    @property
    def recipe(self) -> Recipe:
        """By which a worker is started now."""
        return self._recipes[self._index]

    @property
    def threads(self) -> int:
        """Of a worker that is started now."""
        return self.recipe.options.threads

    def wait_ready(self) -> None:
        """Return once there is a worker, started by this call if need be.

        Raises:
            Unavailable: there will be none.
        """
        self._take()

    def run(self, feeds: Mapping[str, Array], *, deadline_s: float, item_sha256: str, is_first: bool) -> Ran:
        """Run the model, as `Worker.run_in_turn` does. Time without a worker counts as time waited.

        A worker that was gone before the first run of an item began is nobody's trouble: there is another one.

        Raises:
            WorkerLost: the worker died or hung in this run, or between this run of the item and the last.
            WorkerError: see `Worker.run_in_turn`.
            Unavailable: the model was closed, or no engine is left.
        """
        asked = time.monotonic()
        while True:
            worker = self._take()
            waited_s = time.monotonic() - asked
            try:
                ran = worker.run_in_turn(feeds, deadline_s=deadline_s)
                return ran._replace(waited_s=ran.waited_s + waited_s)
            except WorkerEnded:
                continue
            except WorkerLost as loss:
                is_suspect = loss.was_running or not is_first
                self._bury(worker, loss, item_sha256=item_sha256 if is_suspect else "")
                if is_suspect:
                    raise

    def held_bytes(self) -> int:
        """The memory that its workers hold."""
        worker = self._worker
        return (worker.measure() if worker else 0) + self._spare.held_bytes()

    def tend(self, *, now: float, spares: int = 0) -> Chore | None:
        """Look after the worker and, where there is to be one, its spare.

        What is to be done may take long, and is for the caller to run somewhere.
        """
        chore = self._tend_worker(now=now)
        if spares:
            self._spare.check(now=now)
            is_settled = self._worker is not None and not self._failure and now >= self._not_before
            if chore is None and is_settled and self._spare.is_due(self.recipe, now=now):
                return self._start_spare
        return chore

    def rest(self) -> None:
        """Keep no spare until it is tended again: nothing is asked of this model now, or memory is needed."""
        self._spare.rest()

    def _tend_worker(self, *, now: float) -> Chore | None:
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
        """Go on with another share of the processors, in a fresh worker if that makes a difference to this one."""
        with self._changed:
            before = self.threads
            self._recipes = [recipe.with_share(threads) for recipe in self._recipes]
            is_same = self.threads == before
        if not is_same:
            self.replace()

    def replace(self) -> None:
        """Put a fresh worker in the place of the one that answers: the spare, or one that is started beside it, or
        where both don't fit, after it."""
        with self._changed:
            old = self._worker
            if old is None or self._is_starting or self._closing.is_set():
                return
            spare = self._spare.take(self.recipe)
            if spare is None:
                self._is_starting = True
            else:
                self._have_answer(spare)
        if spare is None:
            self._replace_by_fresh(old)
        else:
            old.close(drain_s=DRAIN_S)

    def prefer(self, recipe: Recipe) -> None:
        """Go on by another recipe, in a fresh worker. Those before it have their turn again when its workers die.

        Raises:
            WorkerError: no worker can be started by it; nothing has changed.
            Unavailable: the model was closed, or no engine is left.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._is_starting)
            self._check_usable()
            self._is_starting = True
        fresh = None
        try:
            fresh = recipe.start(timeout_s=LOAD_TIMEOUT_S, is_beside=True)
        finally:
            with self._changed:
                self._is_starting = False
                useless: Worker | None = fresh
                if fresh is not None and not self._closing.is_set() and not self._failure:
                    self._recipes.insert(self._index, recipe)
                    self._loop, self._not_before = CrashLoop(), 0.0
                    useless = self._have_answer(fresh)
                self._changed.notify_all()
        if useless is not None:
            useless.close(drain_s=DRAIN_S)
        self._check_usable()

    def close(self) -> None:
        """End its workers; a run in progress may end first. Whoever waits for a worker gets Unavailable."""
        self._closing.set()
        with self._changed:
            worker, self._worker = self._worker, None
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_starting)
        self._spare.close()
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
                self._go_on_without()
        self._check_usable()
        return self._worker

    def _check_usable(self) -> None:
        if self._closing.is_set():
            raise Unavailable(UNLOADED)
        if self._failure:
            raise Unavailable(self._failure)

    def _replace_by_fresh(self, old: Worker) -> None:
        self._spare.drop()
        is_beside = read_room().free_bytes > self._watermark_bytes
        if not is_beside:
            with self._changed:
                self._worker = None
            old.close(drain_s=DRAIN_S)
        self._start_one(replaces=old if is_beside else None)

    def _restart(self) -> None:
        with contextlib.suppress(Unavailable):
            self._take()

    def _start_one(self, *, replaces: Worker | None) -> None:
        """Start a worker, which `_is_starting` has announced. One that it `replaces` serves on if this fails."""
        fresh = None
        recipe = self._recipes[self._index]
        try:
            self._spare.drop(but=recipe)  # it may be in the way
            if not self._closing.is_set():
                fresh = recipe.start(timeout_s=LOAD_TIMEOUT_S, is_beside=replaces is not None)
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
                useless = self._have_answer(fresh)
            self._changed.notify_all()
        if useless is not None:
            useless.close(drain_s=DRAIN_S)

    def _bury(self, worker: Worker, loss: WorkerLost, *, item_sha256: str) -> None:
        self._count_death(loss, item_sha256=item_sha256)
        with self._changed:
            if self._worker is worker:
                self._go_on_without()
            self._changed.notify_all()

    def _go_on_without(self) -> None:
        """The worker is gone; its spare answers from now on, if there is one."""
        self._worker = None
        spare = None if self._failure or self._closing.is_set() else self._spare.take(self.recipe)
        if spare is not None:
            self._have_answer(spare)

    def _have_answer(self, worker: Worker) -> Worker | None:
        """This worker answers from now on; returns the one that did."""
        before, self._worker, self._info = self._worker, worker, worker.info
        self._watermark_bytes = watermark_bytes(worker.measure())
        return before

    def _start_spare(self) -> None:
        worker = self._worker
        peak = Peak(worker.peak_bytes if worker else self._watermark_bytes, is_measured=True)
        self._spare.start(self.recipe, needed=peak, now=time.monotonic())

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


def _start_twice(recipe: Recipe, *, timeout_s: float, is_beside: bool) -> Worker:
    """A death while a model loads may have been anybody's doing: once more then."""
    try:
        return recipe.start(timeout_s=timeout_s, is_beside=is_beside)
    except WorkerDied:
        return recipe.start(timeout_s=timeout_s, is_beside=is_beside)
