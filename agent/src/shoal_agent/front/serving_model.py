"""How does one loaded model answer one item, and what is counted while it does?

A death of the worker costs the item that was being run, not the model: the worker is started again. Who asked decides
whether to run the item again.
"""

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Self

from shoal_wire.histogram import Sketch
from shoal_worker.errors import WorkerError

from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Answer
from shoal_agent.front.worker import Worker, WorkerDied, WorkerLost, WorkerOptions

INFERENCE_DEADLINE_S = 30.0
_RESTART_PAUSES_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)


class ModelFailed(Exception):
    """The model, its engine or its worker failed on an item; the item may be good."""


class WorkerGone(ModelFailed):
    """The worker died or hung while it ran the item, and was started again."""


@dataclass
class Counts:
    """What happened since the model was loaded."""

    answers: int = 0
    errors: int = 0
    deaths: int = 0
    latency_ms: Sketch = field(default_factory=Sketch)


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    """All that it takes to start the worker again."""

    interpreter: str
    engine: str
    model_format: str
    model_fd: int
    options: WorkerOptions

    def start(self) -> Worker:
        """A worker with the model; started once more where one died as it loaded, which may have been anybody's doing.

        Raises:
            WorkerError: the model can't be loaded.
        """
        try:
            return self._start()
        except WorkerDied:
            return self._start()

    def _start(self) -> Worker:
        return Worker.start(
            self.interpreter,
            engine=self.engine,
            model_fd=self.model_fd,
            options=self.options,
            model_format=self.model_format,
        )


class ServingModel:
    """A pipeline and the worker behind it. Threads may share it."""

    def __init__(self, recipe: _Recipe, *, worker: Worker, pipeline: Pipeline, variant: str) -> None:
        """Use `start`."""
        self.variant = variant
        self.pipeline = pipeline
        self.counts = Counts()
        self.info = worker.info
        self._recipe = recipe
        self._worker: Worker | None = worker
        self._lock = threading.Lock()
        self._closed = False

    @classmethod
    def start(
        cls,
        interpreter: str,
        *,
        engine: str,
        model_format: str,
        variant: str,
        model_fd: int,
        options: WorkerOptions,
        pipeline: Pipeline,
    ) -> Self:
        """Start a worker on the model in `model_fd`, which belongs to the result from then on.

        Raises:
            WorkerError: the model can't be loaded.
        """
        recipe = _Recipe(
            interpreter=interpreter, engine=engine, model_format=model_format, model_fd=model_fd, options=options
        )
        return cls(recipe, worker=recipe.start(), pipeline=pipeline, variant=variant)

    def answer(self, raw: bytes) -> tuple[Answer, float]:
        """The answer to one item, and the milliseconds that it took.

        Raises:
            BadInput: the item isn't what the model takes; not counted as an error.
            WorkerGone: the worker died on it.
            ModelFailed: the engine failed, missed its deadline or gave outputs that don't fit.
        """
        started = time.monotonic()
        prepared = self.pipeline.prepare(raw)
        try:
            outputs = [self._run_worker().run(call, deadline_s=INFERENCE_DEADLINE_S) for call in prepared.calls]
            answer = self.pipeline.finish(outputs, prepared.context)
        except WorkerLost as error:
            self._bury()
            raise WorkerGone(str(error)) from None
        except (WorkerError, BadOutput) as error:
            self.counts.errors += 1
            raise ModelFailed(str(error)) from None
        latency_ms = (time.monotonic() - started) * 1000
        self.counts.latency_ms.add(latency_ms)
        self.counts.answers += 1
        return answer, latency_ms

    def close(self) -> None:
        """Let a run in progress end, and end the worker."""
        with self._lock:
            self._closed = True
            if self._worker is not None:
                self._worker.close()
            os.close(self._recipe.model_fd)

    def _run_worker(self) -> Worker:
        """The worker, started again where it died."""
        with self._lock:
            if self._closed:
                raise ModelFailed("the release was unloaded")
            if self._worker is None:
                pause = _RESTART_PAUSES_S[min(self.counts.deaths - 1, len(_RESTART_PAUSES_S) - 1)]
                time.sleep(pause)
                self._worker = self._recipe.start()
            return self._worker

    def _bury(self) -> None:
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None
            self.counts.deaths += 1
