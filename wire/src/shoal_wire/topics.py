"""Which MQTT topic carries what?

`shoal/v1/<device>/up/<channel>` is written by that device only, `shoal/v1/<device>/down/<channel>` by the fleet only:
the broker's access rules are patterns over these two. No other module spells a topic.
"""

import enum
import re
from typing import NamedTuple

from shoal_wire.errors import Malformed

_ROOT = "shoal/v1"
_TOPIC = re.compile(r"shoal/v1/([a-z0-9][a-z0-9-]{2,62})/(up|down)/([a-z]{1,32})")


class Up(enum.Enum):
    """What a device publishes."""

    PRESENCE = "presence"
    """Retained; its last will says offline. Unsigned: a hint, never a fact."""
    REPORTED = "reported"
    """Retained; the signed document of what the device runs."""
    BATCH = "batch"
    """Signed rows of the outbox."""


class Down(enum.Enum):
    """What the fleet publishes to a device."""

    DESIRED = "desired"
    """Retained; the signed document of what the device should run."""
    ACK = "ack"
    """Signed: how far the fleet has committed the device's outbox."""


RETAINED: tuple[Up | Down, ...] = (Up.PRESENCE, Up.REPORTED, Down.DESIRED)
"""What the broker keeps for those who connect later."""


class Topic(NamedTuple):
    """A topic that was parsed."""

    device: str
    channel: Up | Down


def up(device: str, channel: Up) -> str:
    """Topic on which `device` publishes."""
    return f"{_ROOT}/{device}/up/{channel.value}"


def down(device: str, channel: Down) -> str:
    """Topic on which `device` listens."""
    return f"{_ROOT}/{device}/down/{channel.value}"


def all_up() -> str:
    """Filter for everything that devices publish, for the fleet's ingest."""
    return f"{_ROOT}/+/up/+"


def all_down(device: str) -> str:
    """Filter for everything that one device listens to."""
    return f"{_ROOT}/{device}/down/+"


def parse(topic: str) -> Topic:
    """Device and channel of a topic.

    Raises:
        Malformed: no topic of this version of the protocol.
    """
    match = _TOPIC.fullmatch(topic)
    if match:
        device, direction, name = match.groups()
        for channel in Up if direction == "up" else Down:
            if channel.value == name:
                return Topic(device, channel)
    raise Malformed(f"topic {topic[:120]!r}: expected shoal/v1/<device>/up|down/<channel>")
