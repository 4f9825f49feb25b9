"""Does the board answer so rarely that a measurement on it tells something? A rule."""

from collections import deque

MOST_SHARE = 0.5
"""Of the time, spent on answers. What load is left falls on all candidates alike: they take turns."""


class Quiet:
    """Time that answers took in the last seconds."""

    def __init__(self, *, window_s: float) -> None:
        self._window_s = window_s
        self._seen: deque[tuple[float, float]] = deque()

    def note(self, answering_ms: float, *, now: float) -> bool:
        """`answering_ms`: all that answers took so far. Whether it was quiet over the whole window.

        Where less was counted than before, another front counts from nothing: the window begins anew.
        """
        if self._seen and answering_ms < self._seen[-1][1]:
            self._seen.clear()
        self._seen.append((now, answering_ms))
        while len(self._seen) > 2 and self._seen[1][0] <= now - self._window_s:
            self._seen.popleft()
        began, before_ms = self._seen[0]
        elapsed_s = now - began
        return elapsed_s >= self._window_s and (answering_ms - before_ms) / 1000 < MOST_SHARE * elapsed_s
