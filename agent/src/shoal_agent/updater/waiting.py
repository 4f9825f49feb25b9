"""What does an update wait for that no further start of the updater can hasten?

For room on the disk, or for the time at which the fleet wants to be asked again. It is on the disk, so that starts in
between end at once, with nothing asked of the network. After at most `LOOK_AGAIN_S` it is looked at anew.
"""

import contextlib
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, Seconds, Text, decode_struct, encode
from shoal_wire.errors import Malformed

from shoal_agent.slots import Journal
from shoal_agent.updater.records import WAITING, Records

LOOK_AGAIN_S = 3600.0


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Content of waiting.json. Times in Unix seconds of this board's clock."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    epoch: Counter
    generation: Counter
    reason: Text
    noted_at: Seconds
    wait_s: Seconds = LOOK_AGAIN_S
    needed_bytes: Counter = 0
    """Of room on the disk, which ends the wait before its time; 0: it isn't waited for room."""


def is_over(waiting: Waiting, *, journal: Journal, now: float, free_bytes: int) -> bool:
    """Whether the update may go on: by another generation, by time, or by room that was made.

    A clock that was set back ends it too.
    """
    if (waiting.epoch, waiting.generation) != (journal.epoch, journal.generation):
        return True
    if not 0 <= now - waiting.noted_at < min(waiting.wait_s, LOOK_AGAIN_S):
        return True
    return 0 < waiting.needed_bytes <= free_bytes


def note(records: Records, journal: Journal, *, reason: str, now: float, wait_s: float, needed_bytes: int = 0) -> None:
    """Remember why this update waits. A disk that is too full even for this costs more questions, and no more."""
    waiting = Waiting(
        epoch=journal.epoch,
        generation=journal.generation,
        reason=reason,
        noted_at=now,
        wait_s=wait_s,
        needed_bytes=needed_bytes,
    )
    with contextlib.suppress(OSError):
        records.files.write(records.state / WAITING, encode(waiting))


def find_reason(records: Records, journal: Journal, *, now: float) -> str | None:
    """Why this update still waits; None where it may go on. What is over is forgotten."""
    path = records.state / WAITING
    if not records.files.size(path):
        return None
    try:
        waiting = decode_struct(records.files.read(path), Waiting, what=WAITING)
    except Malformed:
        waiting = None  # it only spares the network
    free_bytes = records.files.free_bytes(records.state)
    if waiting is not None and not is_over(waiting, journal=journal, now=now, free_bytes=free_bytes):
        return waiting.reason
    records.files.remove(path)
    return None
