"""Which of the choices that boards of one kind made is another board of that kind told?

Rules only. Each device has one word, its newest verdict. A confirmation supports a choice that some board has measured;
alone it makes none known, or a choice could outlive everything that ever spoke for it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from shoal_wire.tuning import Candidate, KnownChoice

Files = tuple[str, ...]
"""Digests of a variant's plaintext files, in its order."""


class Verdict(NamedTuple):
    """What one device found out about one model."""

    number: int
    """Grows in the order in which verdicts were stored."""
    device_id: str
    choice: Candidate
    files: Files
    engine_version: str
    p50_ms: float
    is_settled: bool
    is_confirmed: bool
    is_emulated: bool


def name_variants(verdicts: Iterable[Verdict], variants: Mapping[Files, Sequence[str]]) -> list[Verdict]:
    """The verdicts that hold for a release, with its own names of variants.

    `variants` are the names of its variants by their files: another version may call the same files otherwise.
    """
    return [
        verdict._replace(choice=replace(verdict.choice, variant=_own_name(verdict, variants[verdict.files])))
        for verdict in verdicts
        if verdict.files in variants
    ]


def choose(verdicts: Iterable[Verdict], *, model: str) -> KnownChoice | None:
    """The known choice for a model, None where nothing speaks for any.

    `verdicts` are those of devices of one kind about this model, for one objective.
    """
    words = _words(verdicts)
    measured = [word for word in words if not word.is_confirmed]
    counting = [word for word in measured if word.is_settled] or measured
    newest = {_found(word): word for word in sorted(counting, key=_number)}
    support = Counter(_found(word) for word in (*counting, *(word for word in words if word.is_confirmed)))
    if not newest:
        return None
    best = max(newest.values(), key=lambda word: (support[_found(word)], word.number))
    return KnownChoice(
        model=model,
        candidate=best.choice,
        files=best.files,
        engine_version=best.engine_version,
        p50_ms=best.p50_ms,
        boards=support[_found(best)],
    )


def _words(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The word of each device: its newest verdict. Where that confirms what it had measured itself, that stands."""
    by_device: dict[str, list[Verdict]] = {}
    for verdict in sorted(verdicts, key=_number):
        if not verdict.is_emulated:
            by_device.setdefault(verdict.device_id, []).append(verdict)
    words = []
    for of_device in by_device.values():
        newest = of_device[-1]
        own = [verdict for verdict in of_device if not verdict.is_confirmed][-1:]
        words.append(own[0] if own and _found(own[0]) == _found(newest) else newest)
    return words


def _own_name(verdict: Verdict, names: Sequence[str]) -> str:
    return verdict.choice.variant if verdict.choice.variant in names else names[0]


def _found(verdict: Verdict) -> tuple[Candidate, Files]:
    return verdict.choice, verdict.files


def _number(verdict: Verdict) -> int:
    return verdict.number
