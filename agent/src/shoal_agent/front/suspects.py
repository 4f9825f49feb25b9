"""Which items may not be run any more, because workers died of them?

The count of an item is by the digest of its bytes, over all releases and engines: what killed the last release would
kill the next one, and a board must not go back, and a fleet with it, because of one poisoned input. The daemon keeps
the counts on its disk and gives them to each front that it starts.
"""

import threading
from collections.abc import Mapping

from shoal_agent.front_messages import QUARANTINE_DEATHS


class Suspects:
    """Items that were being run when a worker died. Threads may share it."""

    def __init__(self, deaths: Mapping[str, int]) -> None:
        """`deaths` of workers, by the SHA-256 of the item that was being run."""
        self._deaths = dict(deaths)
        self._lock = threading.Lock()

    def note(self, item_sha256: str) -> None:
        """A worker died while it ran this item."""
        with self._lock:
            self._deaths[item_sha256] = self._deaths.get(item_sha256, 0) + 1

    def is_quarantined(self, item_sha256: str) -> bool:
        """Whether the item isn't run any more."""
        with self._lock:
            return self._deaths.get(item_sha256, 0) >= QUARANTINE_DEATHS
