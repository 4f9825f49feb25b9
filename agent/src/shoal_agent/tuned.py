"""What did tuning find out about a model on this board, and what is to serve it?

`tuning/<key>.json` holds a whole verdict; `tuning/serving.json` holds, by model, what was chosen last. The second is
for daemon and updater, which don't read it yet; it says in what order engines are tried, never that one works.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, Identifier, Label, ModelName, Seconds, Sha256, Text, decode_struct
from shoal_wire.errors import WireError
from shoal_wire.tuning import Candidate, Objective

from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files

FOLDER = "tuning"
SERVING = "serving.json"
MAX_BYTES = 4 << 20


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a candidate. An answer takes an item from its bytes to its answer, as when it serves."""

    candidate: Candidate
    rounds: Counter
    is_finalist: bool
    """Measured in every round; the others were dropped before."""
    p50_ms: Seconds
    """Median over the rounds of each round's median, so that no round counts for more than another."""
    p95_ms: Seconds
    answers_per_s: Seconds
    """Sustained, with two items under way, counting only answers within the deadline."""
    peak_bytes: Counter
    """The most memory that its worker ever held (VmHWM)."""
    load_ms: Seconds
    joules: Seconds | None = None
    """Of the whole board for an answer; None where the board has no meter."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate that was not measured, and why."""

    candidate: Candidate
    reason: Text


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a choice must keep to; None is no limit."""

    p95_ms: Seconds | None = None
    memory_bytes: Counter | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What serves best, and why in words. `candidate` is None where nobody meets the limits."""

    candidate: Candidate | None
    why: Text


class Conditions(msgspec.Struct, frozen=True, kw_only=True):
    """All that a verdict is good for. When one of these changes, the model is tuned again."""

    model_sha256: Sha256
    """Of the model's description: signature, operations and golden cases."""
    variants: dict[Identifier, tuple[Sha256, ...]]
    """Digests of the plaintext files, by variant."""
    engines: dict[Label, Label]
    """Version by `<engine>.<format>`."""
    processor: Label
    processors: Counter
    """Threads that all workers together may use."""
    governor: Label
    thermal: Label
    agent_version: Label
    objective: Objective
    limits: Limits
    candidates: tuple[Candidate, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `tuning/<key>.json`."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    model: ModelName
    at: Seconds
    conditions: Conditions
    budget_s: Seconds
    took_s: Seconds
    is_settled: bool
    """More rounds would hardly change who leads; else the budget ended before that could be said."""
    meter: Label
    """What energy was read from; empty where the board has none."""
    measured: tuple[Measured, ...]
    """The best for the objective first, finalists before the others."""
    refused: tuple[Refused, ...]
    pareto: tuple[Candidate, ...]
    """Those that no other beats in latency, throughput, memory and energy at once."""
    choice: Choice


class ServingChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What was chosen for a model; good for the variant with these files only."""

    candidate: Candidate
    files: tuple[Sha256, ...]
    """Digests of the variant's plaintext files."""
    engine_version: Label
    key: Sha256


class ServingChoices(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `tuning/serving.json`."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    models: dict[ModelName, ServingChoice] = {}


def load_choices(files: Files, state: Path) -> ServingChoices:
    """What was chosen by model; nothing before the first tuning.

    Raises:
        StateDamaged: serving.json can't be read.
    """
    path = state / FOLDER / SERVING
    try:
        return decode_struct(files.read(path), ServingChoices, what=SERVING, limit_bytes=MAX_BYTES)
    except FileNotFoundError:
        return ServingChoices()
    except WireError as error:
        raise StateDamaged(f"{path.parent}: {error}") from None


def preferred_variant(choices: ServingChoices, *, model: str, variants: Mapping[str, tuple[str, ...]]) -> str | None:
    """The variant of a release that was chosen on this board, if the release still has it with the same bytes.

    `variants` are the digests of plaintext files by variant, of a manifest.
    """
    chosen = choices.models.get(model)
    if chosen is None:
        return None
    return next((name for name, digests in variants.items() if digests == chosen.files), None)
