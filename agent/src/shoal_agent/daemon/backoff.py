"""How long until the next try?"""

import random


class Backoff:
    """Doubles from `first_s` to `most_s`. Each wait is drawn from its upper half, so that boards don't try in step."""

    def __init__(self, *, first_s: float, most_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Seconds to wait now."""
        wait_s = self._next_s * random.uniform(0.5, 1.0)  # noqa: S311 (spreads load, hides nothing)
        self._next_s = min(self._next_s * 2, self._most_s)
        return wait_s

    def reset(self) -> None:
        """It went well: start over."""
        self._next_s = self._first_s
