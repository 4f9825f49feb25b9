"""In which ways could a model run on this board? Rules only."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from shoal_wire.manifest import Binding, Model, Tensor, Variant
from shoal_wire.tuning import Candidate

Precision = Literal["exact", "fast"]

FASTER: Mapping[str, tuple[str, ...]] = {
    "openvino": ("x86_64", "aarch64"),
    "onnxruntime": ("aarch64",),
    "tensorrt": ("x86_64", "aarch64"),
}
"""Architectures on which an engine may compute in shorter types than the model's, when it is asked for "fast".

That is of processors; other devices have shorter types wherever they are.
"""


class UsableEngine(NamedTuple):
    """An engine that has passed its probe with a format."""

    engine: str
    model_format: str
    version: str
    devices: tuple[str, ...] = ()
    """On which it has passed it too, beside the one that it takes unasked."""


def thread_counts(budget: int) -> tuple[int, ...]:
    """Numbers of threads worth a trial: the powers of two up to the budget, and the budget."""
    powers = [1 << exponent for exponent in range(budget.bit_length())]
    return tuple(sorted({*(power for power in powers if power <= budget), budget}))


def may_batch(model: Model, variant: Variant) -> bool:
    """Whether several calls can be put together: the first dimension of every input and output is free, also in the
    variant's file. Inputs that are single numbers are given once and don't count."""
    bindings = {binding.tensor: binding for binding in variant.bindings}
    stacked = [tensor for tensor in model.inputs if tensor.shape]
    return bool(stacked) and all(_is_free(tensor, bindings.get(tensor.name)) for tensor in (*stacked, *model.outputs))


def batch_sizes(wanted: Iterable[int], *, calls: int) -> tuple[int, ...]:
    """Those of the wanted sizes that make a difference, 1 among them. `calls`: the most that one golden case has."""
    return tuple(sorted({1, *(size for size in wanted if size <= calls)}))


def list_candidates(
    model: Model,
    engines: Sequence[UsableEngine],
    *,
    threads: Sequence[int],
    batches: Sequence[int],
    architecture: str,
) -> tuple[Candidate, ...]:
    """Every engine for every variant that it computes right, in every setting, in the publisher's order of variants.

    A variant that takes one call at a time has no larger batches, which come after everything else of an engine. On a
    device beside the processor the number of threads makes little difference: only the least is tried.
    """
    return tuple(
        Candidate(
            variant=variant.name, engine=engine.engine, precision=precision, threads=count, batch=batch, device=device
        )
        for variant in model.variants
        for engine in engines
        if engine.model_format == variant.format and variant.is_right_in(engine.engine)
        for batch in batches
        if batch == 1 or may_batch(model, variant)
        for device in ("", *engine.devices)
        for precision in _precisions(engine.engine, architecture, device=device)
        for count in ((min(threads),) if device else threads)
    )


def spread(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The order of trial: of each variant in each engine on each device the first setting, then the second, and so on.

    Where time is short, every engine had its turn all the same.
    """
    seen: dict[tuple[str, str, str], int] = {}
    places = []
    for candidate in candidates:
        kind = (candidate.variant, candidate.engine, candidate.device)
        places.append(seen.get(kind, 0))
        seen[kind] = places[-1] + 1
    return [candidate for _, candidate in sorted(zip(places, candidates, strict=True), key=lambda pair: pair[0])]


def _is_free(tensor: Tensor, binding: Binding | None) -> bool:
    """Whether the first dimension of a tensor is, in the signature and wherever the file has it."""
    if tensor.shape[:1] != (-1,):
        return False
    return binding is None or binding.shape[binding.permutation.index(0) if binding.permutation else 0] == -1


def _precisions(engine: str, architecture: str, *, device: str) -> tuple[Precision, ...]:
    return ("exact", "fast") if device or architecture in FASTER.get(engine, ()) else ("exact",)
