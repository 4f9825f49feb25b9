"""How does the broker forget what it retains of devices that were taken out of use?"""

from datetime import timedelta

from shoal_wire import topics
from shoal_wire.topics import RETAINED, Up

from shoal_fleet.database import Sessions
from shoal_fleet.devices.lifecycle import decommissioned_since
from shoal_fleet.rollouts.publication import Publisher
from shoal_fleet.times import Clock

REPEATED_FOR = timedelta(days=30)
"""A broker that was restored from an older state retains them again: so long each new connection brings it up."""


class Forgetting:
    """Clears retained topics. One worker owns this."""

    def __init__(self, sessions: Sessions, *, publisher: Publisher, clock: Clock) -> None:
        self._sessions = sessions
        self._publisher = publisher
        self._clock = clock
        self._done: set[str] = set()

    def begin_anew(self) -> None:
        """There is a new connection to the broker."""
        self._done.clear()

    def clear_topics(self) -> None:
        """Clear those of devices that weren't dealt with over this connection (MQTT 5, 3.3.1.3: an empty payload)."""
        with self._sessions() as session:
            devices = decommissioned_since(session, self._clock() - REPEATED_FOR.total_seconds())
        for device in devices:
            if device not in self._done and self._clear(device):
                self._done.add(device)

    def _clear(self, device: str) -> bool:
        names = [
            topics.up(device, channel) if isinstance(channel, Up) else topics.down(device, channel)
            for channel in RETAINED
        ]
        return all(self._publisher.publish(name, b"", retain=True, receipt=None) for name in names)
