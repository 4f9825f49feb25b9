"""Has a model died so often with one engine that another one is due? A rule.

What counts is how many different things it died of: an item that kills every worker it meets counts once, and so it
can't drive a model from engine to engine. A death while no item was being run counts by itself.
"""

from collections import deque

LIMIT = 3
WINDOW_S = 600.0
PAUSES_S = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Before each start after a death, by the number of deaths in the window."""


class CrashLoop:
    """The deaths of one model with one engine. Times are in seconds of one clock."""

    def __init__(self) -> None:
        self._deaths: deque[tuple[float, str]] = deque()

    def note(self, culprit: str, *, now: float) -> None:
        """A worker died; `culprit` is the digest of the item that it ran, empty where it ran none."""
        self._deaths.append((now, culprit))
        self._forget(now)

    def causes(self, *, now: float) -> int:
        """Different things that it died of within the window."""
        self._forget(now)
        culprits = [culprit for _, culprit in self._deaths]
        return culprits.count("") + len(set(culprits) - {""})

    def is_over(self, *, now: float) -> bool:
        """Whether the engine has had its chances."""
        return self.causes(now=now) >= LIMIT

    def pause_s(self, *, now: float) -> float:
        """How long to wait before the next start."""
        self._forget(now)
        return PAUSES_S[min(max(len(self._deaths) - 1, 0), len(PAUSES_S) - 1)]

    def _forget(self, now: float) -> None:
        while self._deaths and self._deaths[0][0] < now - WINDOW_S:
            self._deaths.popleft()
