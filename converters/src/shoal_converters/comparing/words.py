"""How is a comparison shown to people?"""

from collections.abc import Iterator, Sequence

import msgspec

from shoal_converters.comparing.comparison import Comparison, LayerDifference
from shoal_converters.comparing.differences import Difference

MAX_LAYERS = 10
MAX_NAME = 70


def describe(comparison: Comparison, *, threshold: float) -> str:
    """Lines. Layers whose relative difference exceeds `threshold` have parted."""
    lines = [f"{comparison.first} ({comparison.engines[0]})", f"{comparison.second} ({comparison.engines[1]})"]
    lines += [f"  {comparison.calls} calls; the first model is the reference"]
    lines += [f"  note: {note}" for note in comparison.notes]
    lines += _table([(output.name, output.difference) for output in comparison.outputs], heading="output")
    if comparison.layers:
        lines += _describe_layers(comparison.layers, threshold=threshold)
    return "\n".join("".join(one if one.isprintable() else "?" for one in line) for line in lines)


def parted(layers: Sequence[LayerDifference], *, threshold: float) -> list[LayerDifference]:
    """Layers whose relative difference exceeds a threshold, in the order of computation."""
    return [one for one in layers if one.difference.not_finite or one.difference.rms_relative > threshold]


def _describe_layers(layers: Sequence[LayerDifference], *, threshold: float) -> Iterator[str]:
    apart = parted(layers, threshold=threshold)
    yield f"  {len(layers)} layers compared; {len(apart)} differ by more than {threshold:g} (RMS, relative)"
    if apart:
        yield from _table(_rows(apart), heading="the first of them")
    worst = sorted(layers, key=lambda one: -one.difference.rms_relative)
    if worst and worst[0].difference.rms_relative > 0:
        yield from _table(_rows(worst), heading="those that differ most")


def _rows(layers: Sequence[LayerDifference]) -> list[tuple[str, Difference]]:
    """The largest value's place says nothing within a model."""
    return [
        (f"{one.name[:MAX_NAME]} ({one.operator})", msgspec.structs.replace(one.difference, argmax_agreement=None))
        for one in layers[:MAX_LAYERS]
    ]


def _table(rows: Sequence[tuple[str, Difference]], *, heading: str) -> Iterator[str]:
    width = max([len(heading), *(len(name) for name, _ in rows)])
    has_argmax = any(one.argmax_agreement is not None for _, one in rows)
    yield f"  {heading:<{width}}  {'max abs':>10}  {'RMS rel.':>10}  {'cosine':>9}" + "  same largest" * has_argmax
    for name, one in rows:
        argmax = "" if one.argmax_agreement is None else f"  {one.argmax_agreement:>12.1%}"
        broken = f"  {one.not_finite} values aren't numbers in one of them" if one.not_finite else ""
        yield f"  {name:<{width}}  {one.max_abs:>10.3g}  {one.rms_relative:>10.3g}  {one.cosine:>9.6f}{argmax}{broken}"
