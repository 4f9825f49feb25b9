"""How often may one who asks be answered?

A token bucket for each, of which the ones used last are kept.
"""

import threading
from collections import OrderedDict
from typing import NamedTuple

MOST_KEYS = 10_000


class Rate(NamedTuple):
    """So many at once, then one every `every_s` seconds."""

    burst: int
    every_s: float


class Limiter:
    """Counts by key. May be called from any thread. Times are in seconds of one clock."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._lock = threading.Lock()
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When each bucket would be full again; the key used last stands last."""

    def wait_s(self, key: str, *, now: float) -> float:
        """Count one; 0 where it may go ahead, else how long to wait. One that must wait isn't counted."""
        with self._lock:
            full_at = max(self._full_at.get(key, now), now)
            wait_s = full_at - now - (self._rate.burst - 1) * self._rate.every_s
            if wait_s > 0:
                return wait_s
            self._full_at[key] = full_at + self._rate.every_s
            self._full_at.move_to_end(key)
            if len(self._full_at) > MOST_KEYS:
                self._full_at.popitem(last=False)
            return 0.0
