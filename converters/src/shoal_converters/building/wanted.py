"""Which variants are made of a model? Those that the recipe names, or those that its targets can run. Rules only."""

from collections.abc import Sequence
from typing import NamedTuple

from shoal_agent.engine_table import ENGINES
from shoal_wire.device_profile import DeviceProfile

from shoal_converters.errors import BadRecipe
from shoal_converters.paths import VARIANTS

ONLY_FOR = {"onnx-int8-tensorrt": "tensorrt"}
"""Variants that are made for one engine, though others read their format."""


class Wanted(NamedTuple):
    """Names of variants, each once."""

    names: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Those that no target runs."""


def list_wanted(named: Sequence[str], targets: Sequence[DeviceProfile]) -> Wanted:
    """What the recipe names, whatever the targets are; else what an engine of one of the targets reads; else all.

    Raises:
        BadRecipe: a name that isn't one of a variant.
    """
    unknown = sorted(set(named) - set(VARIANTS))
    if unknown:
        raise BadRecipe(f"variants: unknown {unknown[0]!r}, expected out of {sorted(VARIANTS)}")
    if named or not targets:
        return Wanted(tuple(dict.fromkeys(named or VARIANTS)))
    engines = {engine.value for target in targets for engine in target.engines}
    names = tuple(name for name in VARIANTS if engines & _readers(name))
    return Wanted(names, tuple(name for name in VARIANTS if name not in names))


def _readers(name: str) -> set[str]:
    return {ONLY_FOR[name]} if name in ONLY_FOR else set(ENGINES.get(VARIANTS[name].format, ()))
