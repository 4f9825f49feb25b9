"""May a variant be released, and if not, why?"""

import math
from typing import NamedTuple

from shoal_converters.gains import judge_gains
from shoal_converters.paths import FULL_PRECISION
from shoal_converters.report.results import VariantResult

ROUNDING = 1e-9
"""0.99 - 0.98 is more than 0.01."""


class Verdict(NamedTuple):
    """`words` says why not, or what to know of it; empty where there is nothing to say."""

    is_released: bool
    words: str
    gains: tuple[str, ...] = ()
    """What it is better at: see `shoal_converters.gains`."""


def judge(variant: VariantResult, *, metric: str, max_drop: float, full: VariantResult | None) -> Verdict:
    """Whether a variant keeps the budget and is better at something than its own full-precision form.

    `full`: that of its format; None where there is none.
    """
    if variant.value is None or variant.drop is None:
        return Verdict(False, variant.reason or "its accuracy could not be measured here")
    if not math.isfinite(variant.drop):
        return Verdict(False, f"{metric} is not a number")
    if variant.drop > max_drop + ROUNDING:
        return Verdict(False, f"loses {variant.drop:.4f} of {metric}, allowed {max_drop:g}")
    if variant.name in FULL_PRECISION or full is None:
        return Verdict(True, "")
    gains = judge_gains(variant, full)
    if not gains.names:
        return Verdict(False, f"neither smaller nor faster: {gains.words}")
    words = "" if "faster" in gains.names else f"smaller, but not faster: {gains.words}"
    return Verdict(True, words, gains.names)
