"""How does one loaded model answer one item, and what is counted while it does?

A death of the worker costs the item that was being run, not the model: `model_workers` has another one soon. Who asked
decides whether to run the item again.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from shoal_wire.histogram import Sketch
from shoal_worker.errors import WorkerError
from shoal_worker.messages import Loaded

from shoal_agent.front.batching import run_prepared
from shoal_agent.front.model_workers import DRAIN_S, ModelWorkers, Recipe, Unavailable, Watcher
from shoal_agent.front.operations.errors import BadInput, BadOutput
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Answer, Prepared, Tensors
from shoal_agent.front.worker import LOAD_TIMEOUT_S
from shoal_agent.front.worker_process import WorkerLost
from shoal_agent.swap import hold


class ModelFailed(Exception):
    """The model, its engine or its worker failed on an item; the item may be good."""


class WorkerGone(ModelFailed):
    """The worker died or hung while it ran the item."""


class ModelGone(ModelFailed):
    """The release was unloaded, or no engine is left to run it: nothing was tried on the item."""


@dataclass
class Counts:
    """What happened since the model was loaded."""

    answers: int = 0
    errors: int = 0
    latency_ms: Sketch = field(default_factory=Sketch)


class Answered(NamedTuple):
    """What a model said of one item, as JSON and for people, how long that took, and the outputs that it was made of.

    Time without a worker, and time for which the worker ran other items, doesn't count.
    """

    answer: Answer
    words: str
    latency_ms: float
    outputs: Sequence[Tensors]


class ServingModel:
    """A pipeline and the workers behind it. Threads may share it."""

    def __init__(self, workers: ModelWorkers, *, recipes: Sequence[Recipe], pipeline: Pipeline, variant: str) -> None:
        """Use `start`."""
        self.variant = variant
        self.pipeline = pipeline
        self.counts = Counts()
        self.workers = workers
        self._deadline_s = recipes[0].deadline_s
        self._model_fds = recipes[0].model_fds
        self._held = hold(self._model_fds)
        self._changed = threading.Condition()
        self._answering = 0
        self._closed = False

    @classmethod
    def start(
        cls,
        recipes: Sequence[Recipe],
        *,
        pipeline: Pipeline,
        variant: str,
        watcher: Watcher,
        timeout_s: float = LOAD_TIMEOUT_S,
        is_beside: bool = False,
    ) -> Self:
        """Start a worker by the first recipe that works. All are of one model; its descriptors go over to the result.

        See `Recipe.start` for `is_beside`.

        Raises:
            WorkerError: the model can't be loaded. The descriptors stay the caller's.
        """
        workers = ModelWorkers.start(recipes, watcher=watcher, timeout_s=timeout_s, is_beside=is_beside)
        return cls(workers, recipes=recipes, pipeline=pipeline, variant=variant)

    @property
    def info(self) -> Loaded:
        """What runs the model now."""
        return self.workers.info

    @property
    def precision(self) -> str:
        """In which it computes now: see `shoal_worker.messages.Load`."""
        return self.workers.recipe.options.precision

    def answer(self, raw: bytes, *, item_sha256: str = "") -> Answered:
        """The answer to one item.

        Raises:
            BadInput: the item isn't what the model takes; not counted as an error.
            WorkerGone: the worker died on it; told to the watcher with `item_sha256`.
            ModelGone: nothing was tried.
            ModelFailed: the engine failed, missed its deadline or gave outputs that don't fit.
        """
        with self._in_use():
            try:
                self.workers.wait_ready()
                started = time.monotonic()
                prepared = self.pipeline.prepare(raw)
                outputs, waited_s = self._run(prepared, item_sha256)
                answer = self.pipeline.finish(outputs, prepared.context)
                words = self.pipeline.describe(answer)
            except Unavailable as error:
                raise ModelGone(str(error)) from None
            except WorkerLost as error:
                raise WorkerGone(str(error)) from None
            except BadInput:
                raise
            except Exception as error:
                with self._changed:
                    self.counts.errors += 1
                if isinstance(error, WorkerError | BadOutput):
                    raise ModelFailed(str(error)) from None
                raise ModelFailed(f"{type(error).__name__}: {error}") from error  # a fault in an operation's code
            latency_ms = (time.monotonic() - started - waited_s) * 1000
            with self._changed:
                self.counts.latency_ms.add(latency_ms)
                self.counts.answers += 1
            return Answered(answer, words, latency_ms, outputs)

    def prefer(self, recipe: Recipe) -> None:
        """Answer by another recipe from now on, whose descriptors go over to this model; no item is lost by it.

        Raises:
            WorkerError, Unavailable: see `ModelWorkers.prefer`. The descriptors stay the caller's.
        """
        self.workers.prefer(recipe)
        self._model_fds += recipe.model_fds
        self._held += hold(recipe.model_fds)

    def close(self) -> None:
        """Let answers in progress end, and end the worker."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.wait_for(lambda: not self._answering, timeout=DRAIN_S)
        self.workers.close()
        for mapped in self._held:
            mapped.close()
        for fd in self._model_fds:
            os.close(fd)

    def _run(self, prepared: Prepared[Any], item_sha256: str) -> tuple[list[Tensors], float]:
        """Outputs of each call, and the seconds waited. The deadline is for one inference, of however many calls."""
        waits_s: list[float] = []

        def infer(feeds: Tensors) -> Tensors:
            ran = self.workers.run(feeds, deadline_s=self._deadline_s, item_sha256=item_sha256, is_first=not waits_s)
            waits_s.append(ran.waited_s)
            return ran.outputs

        outputs = run_prepared(prepared, batch=self.workers.recipe.batch, run=infer)
        return outputs, sum(waits_s)

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        with self._changed:
            if self._closed:
                raise ModelGone("the release was unloaded")
            self._answering += 1
        try:
            yield
        finally:
            with self._changed:
                self._answering -= 1
                self._changed.notify_all()
