"""Is there a worker in reserve, loaded and warm, for the one that may die?

It takes the place of a worker that is gone at once, so that nobody waits for a load. It is kept only where memory
admits a second worker of the model, and is never in the way of an update: whoever needs the memory lets it go.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from shoal_worker.errors import WorkerError

from shoal_agent.front.admission import NoRoom, Peak, choose_swap
from shoal_agent.front.board_memory import read_room
from shoal_agent.front.crash_loop import CrashLoop
from shoal_agent.front.worker import LOAD_TIMEOUT_S, Worker
from shoal_agent.front.worker_process import WorkerLost

REFUSED_PAUSE_S = 60.0
"""After there was no room for a spare, or none could be started, before it is tried again."""


class Recipe(Protocol):
    """How a worker is started: `model_workers.Recipe`."""

    @property
    def engine(self) -> str:
        """For notices."""

    def start(self, *, timeout_s: float, is_beside: bool) -> Worker:
        """A worker that has answered once. Raises WorkerError."""


class Spare:
    """At most one worker of a model that answers nobody yet. Threads may share it."""

    def __init__(self, *, notice: Callable[[str, str], None]) -> None:
        """`notice` tells the fleet, from whatever thread."""
        self._notice = notice
        self._lock = threading.Lock()  # for what follows; never held for long
        self._worker: Worker | None = None
        self._recipe: Recipe | None = None
        self._is_wanted = False
        self._is_asked = False
        self._is_closed = False
        self._not_before = 0.0
        self._told = ""  # the notice of which somebody has heard since there was a spare
        self._starting = threading.Lock()  # held for as long as one is started
        self._loop = CrashLoop()

    def is_due(self, recipe: Recipe, *, now: float) -> bool:
        """Whether one by this recipe is to be started; true once, until `start` has been called."""
        with self._lock:
            self._is_wanted = True
            has_one = self._worker is not None and self._recipe is recipe
            if self._is_closed or has_one or self._is_asked or now < self._not_before:
                return False
            self._is_asked = True
            return True

    def start(self, recipe: Recipe, *, needed: Peak, now: float) -> None:
        """Start one, if it is still wanted, there is room for `needed` and the engine does it; else say why not."""
        with self._starting:
            self.drop(but=recipe)
            with self._lock:
                self._is_asked = False
                if self._is_closed or not self._is_wanted or self._worker is not None:
                    return
            try:
                choose_swap(
                    [needed], room=read_room(), idle_bytes=0, serving_bytes=None, policy="availability-preserving"
                )
                fresh = recipe.start(timeout_s=LOAD_TIMEOUT_S, is_beside=True)
            except (NoRoom, WorkerError) as error:
                self._put_off(REFUSED_PAUSE_S, now=now)
                self._tell("spare-refused", f"a spare worker ({recipe.engine}) {error}")
                return
            with self._lock:
                is_wanted, self._told = self._is_wanted, ""
                if is_wanted:
                    self._worker, self._recipe = fresh, recipe
            if not is_wanted:
                fresh.close()

    def check(self, *, now: float) -> None:
        """Notice that it has ended. Nobody was served by it, so that is no death of the model."""
        worker = self._worker
        try:
            if worker is not None:
                worker.check()
        except WorkerLost as loss:
            with self._lock:
                self._worker = None if self._worker is worker else self._worker
            self._loop.note("", now=now)
            self._put_off(self._loop.pause_s(now=now), now=now)
            self._tell("spare-lost", str(loss))

    def take(self, recipe: Recipe) -> Worker | None:
        """The spare, to serve from now on; None where there is none that was started by this very recipe."""
        with self._lock:
            worker = self._worker
            if worker is None or self._recipe is not recipe or worker.has_ended:
                return None
            self._worker = None
            return worker

    def drop(self, *, but: Recipe | None = None) -> None:
        """End the spare, unless it was started by the recipe `but`."""
        with self._lock:
            if self._recipe is but:
                return
            worker, self._worker, self._recipe = self._worker, None, None
        if worker is not None:
            worker.close()

    def rest(self) -> None:
        """End the spare, and start none until one is asked for again."""
        with self._lock:
            self._is_wanted = False
        self.drop()

    def close(self) -> None:
        """End the spare, and one that is being started; there will be none any more."""
        with self._lock:
            self._is_closed = True
        self.rest()
        with self._starting:
            self.drop()

    def held_bytes(self) -> int:
        """The memory that it holds."""
        worker = self._worker
        return worker.measure() if worker else 0

    def _put_off(self, seconds: float, *, now: float) -> None:
        with self._lock:
            self._not_before = now + seconds

    def _tell(self, name: str, words: str) -> None:
        """Once, until there is one again."""
        with self._lock:
            has_told, self._told = self._told == name, name
        if not has_told:
            self._notice(name, words)
