"""In which ways could a model run on this board? Rules only."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from shoal_wire.manifest import Model
from shoal_wire.tuning import Candidate

Precision = Literal["exact", "fast"]

FASTER: Mapping[str, tuple[str, ...]] = {
    "openvino": ("x86_64", "aarch64"),
    "onnxruntime": ("aarch64",),
    "tensorrt": ("x86_64", "aarch64"),
}
"""Architectures on which an engine may compute in shorter types than the model's, when it is asked for "fast"."""


class UsableEngine(NamedTuple):
    """An engine that has passed its probe with a format."""

    engine: str
    model_format: str
    version: str


def thread_counts(budget: int) -> tuple[int, ...]:
    """Numbers of threads worth a trial: the powers of two up to the budget, and the budget."""
    powers = [1 << exponent for exponent in range(budget.bit_length())]
    return tuple(sorted({*(power for power in powers if power <= budget), budget}))


def may_batch(model: Model) -> bool:
    """Whether several calls can be put together: the first dimension of every input and output is free."""
    tensors = [*model.inputs, *model.outputs]
    return all(tensor.shape[:1] == (-1,) for tensor in tensors)


def batch_sizes(model: Model, wanted: Iterable[int], *, calls: int) -> tuple[int, ...]:
    """Those of the wanted sizes that make a difference, 1 among them. `calls`: the most that one golden case has."""
    return tuple(sorted({1, *(size for size in wanted if size <= calls and may_batch(model))}))


def list_candidates(
    model: Model,
    engines: Sequence[UsableEngine],
    *,
    threads: Sequence[int],
    batches: Sequence[int],
    architecture: str,
) -> tuple[Candidate, ...]:
    """Every engine for every variant in every setting, in the publisher's order of variants."""
    return tuple(
        Candidate(variant=variant.name, engine=engine.engine, precision=precision, threads=count, batch=batch)
        for variant in model.variants
        for engine in engines
        if engine.model_format == variant.format
        for precision in _precisions(engine.engine, architecture)
        for count in threads
        for batch in batches
    )


def spread(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The order of trial: of each variant in each engine the first setting, then the second of each, and so on.

    Where time is short, every engine had its turn all the same.
    """
    seen: dict[tuple[str, str], int] = {}
    places = []
    for candidate in candidates:
        kind = (candidate.variant, candidate.engine)
        places.append(seen.get(kind, 0))
        seen[kind] = places[-1] + 1
    return [candidate for _, candidate in sorted(zip(places, candidates, strict=True), key=lambda pair: pair[0])]


def _precisions(engine: str, architecture: str) -> tuple[Precision, ...]:
    return ("exact", "fast") if architecture in FASTER.get(engine, ()) else ("exact",)
