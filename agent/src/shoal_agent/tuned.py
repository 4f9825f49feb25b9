"""What did tuning find out about a model on this board, and what is to serve it?

`tuning/<key>.json` holds a whole verdict; `tuning/serving.json` holds, by model, what was chosen last for a
release that this board holds. By the second the updater chooses a variant and fronts load releases; it says what is
tried first, never that it works.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, Identifier, Label, ModelName, Seconds, Sha256, Text, decode_struct, encode
from shoal_wire.errors import WireError
from shoal_wire.manifest import Manifest, Model, Variant
from shoal_wire.tuning import BoardKind, Candidate, Objective

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
    """As all candidates would have it at one time; how they compare is told by their calmer rounds."""
    p95_ms: Seconds
    answers_per_s: Seconds
    """Sustained, with two items under way, counting only answers within the deadline."""
    peak_bytes: Counter
    """The most memory that its worker ever held (VmHWM)."""
    load_ms: Seconds
    joules: Seconds | None = None
    """Of the whole board for an answer; None where the board has no meter."""
    placement: tuple[Label, ...] = ()
    """Where the engine really ran it, in its own words."""


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
    board: BoardKind | None = None
    """Where it was measured; None from an agent before this was kept."""
    profile: Label = ""
    """Device profile that this board was found to be of; empty from such an agent."""


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


def describe_model(model: Model, golden_sha256s: Iterable[str]) -> str:
    """Digest of what a verdict is about: a model's description, and the plaintexts of its golden files in order."""
    return hashlib.sha256(encode(model) + "".join(golden_sha256s).encode()).hexdigest()


def variant_with(files: Sequence[str], *, manifest: Manifest, among: Iterable[Variant]) -> Variant | None:
    """The variant that has these plaintext files and no others: what was measured on other bytes says nothing.

    `files` are digests, in the variant's order.
    """
    for variant in among:
        if [manifest.file(name).plaintext_sha256 for name in variant.files] == list(files):
            return variant
    return None
