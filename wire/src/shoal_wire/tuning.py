"""What did a board measure of a model, for which kind of board does that hold, and what can another one be told?

A choice never says that something works or is fast on the board that gets it: that board confirms it first.
"""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shoal_wire.encoding import Counter, Identifier, Label, ModelName, Seconds, Sha256, encode

Objective = Literal["latency", "throughput", "energy", "memory"]

MAX_CHOICES = 16
"""Models of a release."""
MAX_MEASURED = 32


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One way to run a model. `precision`: as the model says ("exact"), or in shorter types if the engine has them."""

    variant: Identifier
    engine: Identifier
    precision: Literal["exact", "fast"] = "exact"
    threads: Annotated[int, Meta(ge=1, le=1024)]
    batch: Annotated[int, Meta(ge=1, le=1024)] = 1
    """Calls of one item that are given to the model at once."""
    device: Label = ""
    """As the engine names it; empty: what the engine takes unasked, which is the processor where it has several."""

    def __str__(self) -> str:
        words = f"{self.variant} {self.engine} {self.precision} threads={self.threads}"
        words += f" batch={self.batch}" if self.batch != 1 else ""
        return f"{words} device={self.device}" if self.device else words


class BoardKind(msgspec.Struct, frozen=True, kw_only=True):
    """What makes two boards equally fast, as far as a board can tell."""

    architecture: Label
    """As `uname -m` prints it."""
    board: Label = ""
    """As the board's firmware names it (device tree or DMI); empty where it doesn't."""
    processor: Label
    processors: Counter
    """Threads that all workers together may use."""
    governor: Label = ""
    is_emulated: bool = False
    """Its instructions are computed by a program: its timings say nothing of any board."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 in hex: equal for boards of one kind."""
        return hashlib.sha256(encode(self)).hexdigest()


class KnownChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What serves a model best on boards of this kind; good for the variant with these files only."""

    model: ModelName
    candidate: Candidate
    files: Annotated[tuple[Sha256, ...], Meta(min_length=1, max_length=64)]
    """Digests of the variant's plaintext files, in its order."""
    engine_version: Label
    p50_ms: Seconds
    boards: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    """How many boards found the same."""


class MeasuredCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one candidate. An answer takes an item from its bytes to its answer, as when it serves."""

    candidate: Candidate
    engine_version: Label
    p50_ms: Seconds
    p95_ms: Seconds
    answers_per_s: Seconds
    peak_bytes: Counter
    """The most memory that its worker ever held (VmHWM)."""
    load_ms: Seconds
    joules: Seconds | None = None
    """Of the whole board for an answer; None where the board has no meter."""
    placement: tuple[Label, ...] = ()
    """Where the engine really ran it, in its own words; empty from an agent that doesn't tell."""


def is_placed_on(device: str, *, placement: Sequence[str]) -> bool:
    """Whether an engine that was asked for a device runs at least a part of a model there.

    `placement` is what it tells. OpenVINO counts devices: what was asked for as "GPU" may be told as "GPU.0".
    """
    return not device or any(place == device or place.startswith(f"{device}.") for place in placement)
