"""Does an earlier verdict still hold, and where is it kept?

The key is the digest of everything that a verdict is good for: when model, engines, processor, governor, warmth or
agent change, or something else is asked for, there is no verdict under the new key. The budget isn't in it: a verdict
that was settled is as good as one that took longer. Verdicts that nobody asked for in a long time make way for others.
"""

import hashlib
import re
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

MAX_VERDICTS = 32
"""Files of verdicts that are kept; the rest, the longest unused, is removed."""
MAX_SERVING = 64
"""Models in serving.json. Beyond that those go whose verdict was removed."""
_FILE = re.compile(r"\.?([0-9a-f]{64})\.json(\.new)?")
"""A verdict, or what a tuning that was killed left of one."""


def key_of(conditions: Conditions) -> str:
    """Name of the verdict that holds under these conditions."""
    return hashlib.sha256(encode(conditions)).hexdigest()


def find_verdict(files: Files, state: Path, *, conditions: Conditions, budget_s: float) -> Verdict | None:
    """The verdict that holds under these conditions; None where there is none or more time may tell more."""
    try:
        raw = files.read(_path(state, conditions))
        verdict = decode_struct(raw, Verdict, what="verdict", limit_bytes=MAX_BYTES)
    except (OSError, WireError):
        return None  # one that can't be read is measured anew
    return verdict if verdict.is_settled or verdict.budget_s >= budget_s else None


def keep_verdict(files: Files, state: Path, verdict: Verdict) -> None:
    """Write a verdict, so that it is found again. Raises OSError."""
    path = _path(state, verdict.conditions)
    files.write(path, encode(verdict))
    kept = [path.parent / name for name in files.names(path.parent) if _FILE.fullmatch(name)]
    kept.sort(key=lambda one: (one != path, -_modified_ns(one)))
    for old in kept[MAX_VERDICTS:]:
        files.remove(old)


def serve_by(files: Files, state: Path, verdict: Verdict) -> None:
    """Write what a verdict chose as what is to serve. One that chose nothing leaves that as it was.

    Raises:
        StateDamaged: serving.json can't be read.
        OSError: the state folder can't be written to.
    """
    chosen = verdict.choice.candidate
    if chosen is None:
        return
    choices = load_choices(files, state)
    choice = ServingChoice(
        candidate=chosen,
        files=verdict.conditions.variants[chosen.variant],
        engine_version=version_of(chosen.engine, conditions=verdict.conditions),
        key=key_of(verdict.conditions),
    )
    if choices.models.get(verdict.model) != choice:
        models = _prune({**choices.models, verdict.model: choice}, there=set(files.names(state / FOLDER)))
        files.write(state / FOLDER / SERVING, encode(msgspec.structs.replace(choices, models=models)))


def version_of(engine: str, *, conditions: Conditions) -> str:
    """The version of an engine that a verdict is about.

    Raises:
        StateDamaged: it isn't about that engine.
    """
    found = [version for name, version in conditions.engines.items() if name.rpartition(".")[0] == engine]
    if not found:
        raise StateDamaged(f"verdict {key_of(conditions)[:12]}: chooses engine {engine}, which it doesn't list")
    return found[0]


def _prune(models: dict[str, ServingChoice], *, there: set[str]) -> dict[str, ServingChoice]:
    """`there`: names of the files that are kept."""
    if len(models) <= MAX_SERVING:
        return models
    return {model: choice for model, choice in models.items() if _name(choice.key) in there}


def _path(state: Path, conditions: Conditions) -> Path:
    return state / FOLDER / _name(key_of(conditions))


def _name(key: str) -> str:
    return f"{key}.json"


def _modified_ns(path: Path) -> int:
    """Written again whenever it is asked for, so that this is its last use."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
