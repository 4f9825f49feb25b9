"""What time is it at least, whatever this board's clock says?

Rules only. A board may have no clock, or a wrong one; an attacker who can set it back could pass old metadata off as
fresh. So the newest time that somebody signed is kept as a floor, and expiry is judged by the later of clock and floor.
The clock itself never raises the floor: one that once ran ahead would for good make everything look expired.

What the fleet's online keys vouch for counts up to the expiry of what the publisher's offline keys signed, and goes
with those online keys: a fleet that was taken over could else say that it is the year 9999, and no board would ever
install anything again (TUF's recovery from fast-forward attacks). What an offline key vouches for counts up to the
expiry of root metadata, and goes with that role's keys: a publisher whose clock ran ahead replaces them.
"""

from datetime import UTC, datetime
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from shoal_wire.encoding import Label, Seconds


class TimeFloor(msgspec.Struct, frozen=True, kw_only=True):
    """Content of time.json. Unix seconds; 0 where nobody vouched for anything yet. Keys are those that root named."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    offline_at: Seconds = 0.0
    """Newest time signed by root keys; of a file that an earlier agent wrote, by release keys too."""
    root_keys: Label = ""
    release_at: Seconds = 0.0
    """Newest time signed by release keys."""
    release_keys: Label = ""
    online_at: Seconds = 0.0
    """Newest time signed by the fleet's keys."""
    online_keys: Label = ""
    limit_at: Seconds = 0.0
    """When the root and targets metadata seen last end: what the online keys say counts up to there; 0: none seen."""

    @property
    def at(self) -> float:
        """The floor."""
        return max(self.offline_at, self.release_at, self.online_at)


class Reading(NamedTuple):
    """What time it is taken to be, and why."""

    clock_at: float
    floor_at: float

    @property
    def at(self) -> float:
        """The later of the two."""
        return max(self.clock_at, self.floor_at)

    @property
    def is_clock_behind(self) -> bool:
        """Whether the clock is certainly wrong: a later time was signed."""
        return self.clock_at < self.floor_at

    def __str__(self) -> str:
        """For people who wonder why something counts as expired."""
        if self.is_clock_behind:
            clock = say_time(self.clock_at)
            return f"by the newest signed time, {say_time(self.floor_at)}; this board's clock is behind: {clock}"
        newest = f"the newest signed time is {say_time(self.floor_at)}" if self.floor_at else "no time was signed yet"
        return f"by this board's clock, {say_time(self.clock_at)}; {newest}: if the clock runs ahead, set it"


class Keys(NamedTuple):
    """Which keys root metadata names, as a text for each role that differs where they do."""

    root: str
    release: str
    online: str


class Vouched(NamedTuple):
    """What verified metadata says of the time."""

    root_at: float
    release_at: float
    online_at: float
    keys: Keys
    root_ends_at: float
    limit_at: float


def follow_keys(floor: TimeFloor, keys: Keys) -> TimeFloor:
    """The floor under a root that names these keys: what others vouched for counts no more."""
    return replace(
        floor,
        offline_at=floor.offline_at if floor.root_keys in ("", keys.root) else 0.0,
        root_keys=keys.root,
        release_at=floor.release_at if floor.release_keys in ("", keys.release) else 0.0,
        release_keys=keys.release,
        online_at=floor.online_at if floor.online_keys == keys.online else 0.0,
        online_keys=keys.online,
    )


def follow_metadata(floor: TimeFloor, vouched: Vouched) -> TimeFloor:
    """The floor after metadata was verified."""
    floor = follow_keys(floor, vouched.keys)
    return replace(
        floor,
        offline_at=max(floor.offline_at, min(vouched.root_at, vouched.root_ends_at)),
        release_at=max(floor.release_at, min(vouched.release_at, vouched.root_ends_at)),
        online_at=max(floor.online_at, min(vouched.online_at, vouched.limit_at)),
        limit_at=vouched.limit_at,
    )


def follow_fleet(floor: TimeFloor, signed_at: float) -> TimeFloor:
    """The floor after the fleet vouched for a time elsewhere: in a desired document, or in a certificate.

    Before any metadata was verified nothing bounds what the fleet may say, so nothing is believed yet.
    """
    return replace(floor, online_at=max(floor.online_at, min(signed_at, floor.limit_at)))


def say_time(at: float) -> str:
    """A time as people write it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
