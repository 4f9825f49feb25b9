"""Is there room for a model in memory, and what must go first if there isn't? Rules only.

Where the peak of a variant was measured, that is what it needs. Otherwise it is estimated: an engine's own size plus
three times the files, as ONNX Runtime was seen to hold the file, the parsed weights and its packed copy of them at once
(268 MB of weights: 848 MB at the peak, of which 62 MB were there without a model).
"""

import enum
from collections.abc import Sequence
from typing import NamedTuple

from shoal_agent.cgroup import MemoryLimit
from shoal_agent.configuration import SwapPolicy

ENGINE_BYTES = 96 << 20
"""An interpreter with NumPy and an engine, before any model; ONNX Runtime's had 62 MB."""
FILE_FACTOR = 3
LIMIT_FACTOR = 2
"""A worker may grow to that many times its predicted peak before its group's limit ends it."""
GROWTH_FACTOR = 1.5
GROWTH_BYTES = 64 << 20
"""A worker that has grown by both since it was warm is replaced at an idle moment."""


class NoRoom(Exception):
    """The model doesn't fit into this board's memory now; the message says what it needs and what there is."""


class Peak(NamedTuple):
    """What a worker is expected to need at most, and how that is known."""

    needed_bytes: int
    is_measured: bool

    def __str__(self) -> str:
        return f"{megabytes(self.needed_bytes)} ({'measured' if self.is_measured else 'estimated'})"


class Room(NamedTuple):
    """What is left. `limits` are those of this process's control groups."""

    available_bytes: int
    limits: tuple[MemoryLimit, ...] = ()

    @property
    def free_bytes(self) -> int:
        """What a new worker can have."""
        return max(0, min((self.available_bytes, *(limit.limit_bytes - limit.used_bytes for limit in self.limits))))

    def __str__(self) -> str:
        words = f"{megabytes(self.available_bytes)} are available on the board"
        if self.limits:
            tightest = min(self.limits, key=lambda limit: limit.limit_bytes - limit.used_bytes)
            left = megabytes(max(0, tightest.limit_bytes - tightest.used_bytes))
            words += f", {left} are left of the control group's limit of {megabytes(tightest.limit_bytes)}"
        return words


class Swap(enum.Enum):
    """How a release takes the place of the one that serves."""

    BESIDE = "beside"
    """Load, warm, flip: there is always one that answers."""
    BESIDE_WITHOUT_IDLE = "beside-without-idle"
    """The same, but releases that are only kept for a quick way back go first."""
    INSTEAD = "instead"
    """What serves goes first; items wait until the new one is ready."""


def predict_peak(*, measured_bytes: int, file_bytes: Sequence[int]) -> Peak:
    """The peak of a worker with one model: as measured (0: nobody did), or as estimated from its files."""
    if measured_bytes:
        return Peak(measured_bytes, is_measured=True)
    return Peak(ENGINE_BYTES + FILE_FACTOR * sum(file_bytes), is_measured=False)


def choose_swap(
    needed: Sequence[Peak], *, room: Room, idle_bytes: int, serving_bytes: int | None, policy: SwapPolicy
) -> Swap:
    """How to make room for the workers of a release.

    `idle_bytes` and `serving_bytes` are held by the slot's releases; None where nothing serves.

    Raises:
        NoRoom: it doesn't fit even alone.
    """
    needed_bytes, serves = sum(peak.needed_bytes for peak in needed), serving_bytes is not None
    if serves and policy == "resource-preserving":
        ways = [Swap.INSTEAD]
    else:
        ways = [Swap.BESIDE, Swap.BESIDE_WITHOUT_IDLE, *([Swap.INSTEAD] if serves else [])]
    gained = {Swap.BESIDE: 0, Swap.BESIDE_WITHOUT_IDLE: idle_bytes, Swap.INSTEAD: idle_bytes + (serving_bytes or 0)}
    for way in ways:
        if needed_bytes <= room.free_bytes + gained[way]:
            return way
    held = f", {megabytes(gained[ways[-1]])} more once this model's other releases go" if gained[ways[-1]] else ""
    raise NoRoom(f"needs {' and '.join(map(str, needed))} of memory; {room}{held}")


def limit_bytes(peak: Peak) -> int:
    """The memory.max of a worker's group."""
    return peak.needed_bytes * LIMIT_FACTOR


def watermark_bytes(warm_bytes: int) -> int:
    """How far a worker that holds `warm_bytes` after its first inference may grow until it is replaced."""
    return max(int(warm_bytes * GROWTH_FACTOR), warm_bytes + GROWTH_BYTES)


def megabytes(size_bytes: int) -> str:
    """A number of bytes for people."""
    return f"{size_bytes / 1e6:.0f} MB"
