"""How does a front do what takes long, one thing after the other, without leaving its daemon waiting?"""

import queue
import threading
from collections.abc import Callable


class Errands:
    """A thread that does what it is given, in order."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._error: BaseException | None = None
        threading.Thread(target=self._work, name="errands", daemon=True).start()

    def put(self, errand: Callable[[], None]) -> None:
        """Do this when all that was put before is done."""
        self._waiting.put(errand)

    def check(self) -> None:
        """Raise what an errand raised: it was given to nobody, and nothing was done after it."""
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        while True:
            errand = self._waiting.get()
            try:
                errand()
            except BaseException as error:
                self._error = error
                return
