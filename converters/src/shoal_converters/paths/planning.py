"""Which conversions lead from a source to the variants that are wanted, in which order? Rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shoal_converters.paths import PATHS, Path


@dataclass(frozen=True, kw_only=True)
class Step:
    """One run of a path."""

    path: Path
    takes: str
    """The source's format, or the variant of an earlier step."""
    gives: tuple[str, ...]
    """Those that are wanted, or needed by a later step."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Steps in an order in which each finds what it takes, and why each of the other variants can't be made."""

    steps: tuple[Step, ...]
    unreachable: Mapping[str, str]


def plan(
    source_format: str, wanted: Sequence[str], *, missing: Mapping[str, str], paths: Sequence[Path] = PATHS
) -> Plan:
    """Choose the first path of the table for each variant that can run and whose own input can be had.

    `missing` says, by module, why a path can't run here. A caller that saw one fail names it there and plans again.
    """
    chosen: dict[str, tuple[Path, str]] = {}
    _reach(source_format, chosen, missing=missing, paths=paths)
    needed = _needed(wanted, chosen)
    steps: dict[tuple[str, str], Step] = {}
    for variant, (path, takes) in chosen.items():
        if variant in needed:
            key = path.module, takes
            earlier = steps[key].gives if key in steps else ()
            steps[key] = Step(path=path, takes=takes, gives=(*earlier, variant))
    unreachable = {
        variant: _explain(variant, source_format, missing=missing, paths=paths)
        for variant in wanted
        if variant not in chosen
    }
    return Plan(steps=tuple(steps.values()), unreachable=unreachable)


def _reach(
    source_format: str, chosen: dict[str, tuple[Path, str]], *, missing: Mapping[str, str], paths: Sequence[Path]
) -> None:
    """Fill in which path gives each variant, and from what, round by round: the shortest way first."""
    has_more = True
    while has_more:
        at_hand = {source_format, *chosen}
        found: dict[str, tuple[Path, str]] = {}
        for path in paths:
            takes = next((one for one in path.takes if one in at_hand), None)
            if takes is None or path.module in missing:
                continue
            for variant in path.gives:
                if variant not in chosen:
                    found.setdefault(variant, (path, takes))
        chosen.update(found)
        has_more = bool(found)


def _needed(wanted: Sequence[str], chosen: Mapping[str, tuple[Path, str]]) -> set[str]:
    """What is wanted and can be had, and all that it is made from."""
    needed: set[str] = set()
    for variant in wanted:
        while variant in chosen and variant not in needed:
            needed.add(variant)
            variant = chosen[variant][1]
    return needed


def _explain(variant: str, source_format: str, *, missing: Mapping[str, str], paths: Sequence[Path]) -> str:
    """Why no path gives a variant: what is missing on the ways to it, or that there is no way.

    Where paths from the source itself are missing, only those are named: without one of them, none behind them helps.
    """
    everything: dict[str, tuple[Path, str]] = {}
    _reach(source_format, everything, missing={}, paths=paths)
    if variant not in everything:
        return f"no conversion leads from {source_format} to {variant}"
    from_source: dict[str, None] = {}  # reasons in their order, each once
    further: dict[str, None] = {}
    left, seen = [variant], {variant}
    while left:
        one = left.pop(0)
        for path in paths:
            takes = next((kind for kind in path.takes if kind in everything or kind == source_format), None)
            if one not in path.gives or takes is None:
                continue
            if path.module in missing:
                reasons = from_source if source_format in path.takes else further
                reasons[missing[path.module]] = None
            elif takes not in seen and takes != source_format:
                seen.add(takes)
                left.append(takes)
    return "; or ".join(from_source or further)
