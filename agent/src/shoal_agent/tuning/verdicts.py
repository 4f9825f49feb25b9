"""Does an earlier verdict still hold, and where is it kept?

The key is the digest of everything that a verdict is good for: when model, engines, processor, governor, warmth or
agent change, or something else is asked for, there is no verdict under the new key. The budget isn't in it: a verdict
that was settled is as good as one that took longer.
"""

import hashlib
from pathlib import Path

import msgspec
from shoal_wire.encoding import decode_struct, encode
from shoal_wire.errors import WireError

from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
from shoal_agent.tuned import (
    FOLDER,
    MAX_BYTES,
    SERVING,
    Conditions,
    ServingChoice,
    Verdict,
    load_choices,
)


def key_of(conditions: Conditions) -> str:
    """Name of the verdict that holds under these conditions."""
    return hashlib.sha256(encode(conditions)).hexdigest()


def find_verdict(files: Files, state: Path, *, conditions: Conditions, budget_s: float) -> Verdict | None:
    """The verdict that holds under these conditions; None where there is none or more time may tell more."""
    try:
        raw = files.read(_path(state, conditions))
        verdict = decode_struct(raw, Verdict, what="verdict", limit_bytes=MAX_BYTES)
    except (FileNotFoundError, WireError):
        return None  # one that can't be read is measured anew
    return verdict if verdict.is_settled or verdict.budget_s >= budget_s else None


def keep_verdict(files: Files, state: Path, verdict: Verdict) -> None:
    """Write a verdict, and what it chose as what is to serve. A verdict that chose nothing leaves that as it was.

    Raises:
        StateDamaged: serving.json can't be read.
        OSError: the state folder can't be written to.
    """
    files.write(_path(state, verdict.conditions), encode(verdict))
    chosen = verdict.choice.candidate
    if chosen is None:
        return
    choices = load_choices(files, state)
    choice = ServingChoice(
        candidate=chosen,
        files=verdict.conditions.variants[chosen.variant],
        engine_version=_version(verdict.conditions, chosen.engine),
        key=key_of(verdict.conditions),
    )
    if choices.models.get(verdict.model) != choice:
        changed = msgspec.structs.replace(choices, models={**choices.models, verdict.model: choice})
        files.write(state / FOLDER / SERVING, encode(changed))


def _version(conditions: Conditions, engine: str) -> str:
    found = [version for name, version in conditions.engines.items() if name.rpartition(".")[0] == engine]
    if not found:
        raise StateDamaged(f"verdict {key_of(conditions)[:12]}: chooses engine {engine}, which it doesn't list")
    return found[0]


def _path(state: Path, conditions: Conditions) -> Path:
    return state / FOLDER / f"{key_of(conditions)}.json"
