"""What is a variant truly better at than the fp32 one of its own format? Rules only.

A claim must hold by a tenth: less is no reason to give accuracy away, and differs from board to board. "Faster" must
hold in the rounds too, in which both had their turns one after the other: a sign test says that the rounds in which it
held are more than chance would give, were it true in half of them.

Exact computing is compared with exact computing. An engine that may use shorter types computes another model than the
fp32 one, whose accuracy nobody judged; its speed is in the report, and is no gain of a variant.
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from shoal_converters.report.results import Speed, VariantResult

SMALLER = 0.9
"""Of the size in bytes, at most."""
FASTER = 0.9
"""Of the p50 latency, at most."""
CHANCE = 0.05
"""Of rounds that agree by luck: 5 of 5 or 10 of 12 suffice, 4 of 4 or 9 of 12 don't."""


class Gains(NamedTuple):
    """What was found, and the numbers behind it."""

    names: tuple[str, ...]
    """Of "smaller" and "faster" those that hold."""
    words: str


class SpeedPair(NamedTuple):
    """The best settings of a variant and of the fp32 one of its format, in the same engines."""

    mine: Speed
    theirs: Speed

    @property
    def ratio(self) -> float:
        """How many times as fast the variant is."""
        return self.theirs.p50_ms / max(self.mine.p50_ms, 1e-9)


def judge_gains(variant: VariantResult, fp32: VariantResult) -> Gains:
    """Compare a variant with the fp32 one of its format: see `compare_speeds`, whose rounds are looked at."""
    ratio = variant.size_bytes / max(1, fp32.size_bytes)
    names = ["smaller"] if ratio <= SMALLER else []
    words = f"{ratio:.2f} x the size of {fp32.name}"
    pair = compare_speeds(variant, fp32)
    if pair is None:
        return Gains(tuple(names), f"{words}; speeds can't be compared: no engine here ran both")
    mine, theirs = pair
    rounds = list(zip(mine.rounds_ms, theirs.rounds_ms, strict=False))  # who failed late had fewer
    held = sum(one <= FASTER * other for one, other in rounds)
    if mine.p50_ms <= FASTER * theirs.p50_ms and is_no_chance(held, rounds=len(rounds)):
        names.append("faster")
    words += (
        f"; {pair.ratio:.2f} x as fast: p50 {mine.p50_ms:.3g} ms ({name_setting(mine)}) "
        f"against {theirs.p50_ms:.3g} ms ({name_setting(theirs)}), "
        f"at least {1 / FASTER:.2f} x in {held} of {len(rounds)} rounds"
    )
    return Gains(tuple(names), words)


def compare_speeds(variant: VariantResult, fp32: VariantResult) -> SpeedPair | None:
    """The least p50 latency of each, in the engines that both were measured in; None where there is no such engine."""
    engines = _exact_engines(variant.speeds) & _exact_engines(fp32.speeds)
    mine, theirs = best_speed(variant.speeds, engines=engines), best_speed(fp32.speeds, engines=engines)
    return None if mine is None or theirs is None else SpeedPair(mine, theirs)


def best_speed(speeds: Sequence[Speed], *, engines: Collection[str] | None = None) -> Speed | None:
    """The least p50 latency of exact computing, in some engines or in all; None where there is none."""
    exact = [one for one in speeds if one.precision == "exact" and (engines is None or one.engine in engines)]
    return min(exact, key=lambda one: one.p50_ms, default=None)


def is_no_chance(held: int, *, rounds: int) -> bool:
    """Whether at least `held` of `rounds` would come with probability CHANCE at most, were each as likely as not."""
    ways = sum(math.comb(rounds, count) for count in range(held, rounds + 1))
    return bool(ways / 2**rounds <= CHANCE)


def name_setting(speed: Speed) -> str:
    """`litert, 2 threads`."""
    return f"{speed.engine}, {speed.threads} thread{'s' if speed.threads > 1 else ''}"


def _exact_engines(speeds: Sequence[Speed]) -> set[str]:
    return {one.engine for one in speeds if one.precision == "exact"}
