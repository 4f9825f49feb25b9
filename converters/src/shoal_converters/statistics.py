"""How sure is a measured metric, and how sure is it that one variant is worse than another?

All intervals hold 95 %. The unit is the item. Shares of right answers have exact or closed ones; the others are
bootstrapped: the metric over as many items as there are, drawn with repeats, again and again, and the middle 95 % of
what it was (Efron, "Bootstrap Methods: Another Look at the Jackknife", Annals of Statistics 7(1), 1979), moved so that
its median is the metric itself: repeated items make an average precision look better than it is. How often, the task
says: `Scored.resamples`. The same answers always give the same interval.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoal_converters.report.results import Interval
from shoal_converters.tasks.task import Scored, Selection

CONFIDENCE = 0.95
SEED = 0
LEAST_DEFINED = 0.5
"""Part of the resamples in which a metric must be defined, for their spread to say anything."""
_Z = 1.959963984540054
"""Of the normal distribution, for 95 % on both sides."""


class Difference(NamedTuple):
    """How much lower a metric is; negative where it is higher."""

    drop: float
    interval: Interval | None


def find_interval(scored: Scored) -> Interval | None:
    """Interval of a metric; None where it isn't defined.

    Of a share of right answers that of Clopper and Pearson ("The use of confidence or fiducial limits illustrated in
    the case of the binomial", Biometrika 26, 1934), which is exact: it never holds less than 95 %.
    """
    if not scored.items or math.isnan(scored.value):
        return None
    if scored.rights is not None:
        return _find_exact_interval(int(scored.rights.sum()), scored.items)
    found = _cut([scored.measure(selection) for selection in _resample(scored)], around=scored.value)
    return None if found is None else Interval(found.low, min(1.0, found.high))


def find_difference(original: Scored, variant: Scored) -> Difference:
    """How much the variant loses on the same items, in their order.

    Each item is drawn for both or for neither: what is hard for both says nothing of their difference. Of shares of
    right answers the interval is that of Agresti and Min ("Simple improved confidence intervals for comparing matched
    proportions", Statistics in Medicine 24, 2005): a bootstrap would be sure that there is no difference wherever none
    was seen.
    """
    if original.items != variant.items:
        raise ValueError(f"{variant.items} answers of the variant, expected {original.items}: the same items")
    drop = original.value - variant.value
    if not original.items or math.isnan(drop):
        return Difference(drop, None)
    if original.rights is not None and variant.rights is not None:
        return Difference(drop, _compare_matched(original.rights, variant.rights))
    drops = [original.measure(selection) - variant.measure(selection) for selection in _resample(original)]
    return Difference(drop, _cut(drops, around=drop))


def _find_exact_interval(rights: int, items: int) -> Interval:
    from scipy.stats import binomtest  # takes a second

    found = binomtest(rights, items).proportion_ci(CONFIDENCE, method="exact")
    return Interval(float(found.low), float(found.high))


def _compare_matched(original: NDArray[np.bool_], variant: NDArray[np.bool_]) -> Interval:
    """A half is added to each of the four counts (right or wrong by either), two items in all."""
    lost, gained = int((original & ~variant).sum()) + 0.5, int((variant & ~original).sum()) + 0.5
    items = len(original) + 2
    middle = (lost - gained) / items
    reach = _Z * math.sqrt(lost + gained - (lost - gained) ** 2 / items) / items
    return Interval(max(-1.0, middle - reach), min(1.0, middle + reach))


def _resample(scored: Scored) -> Iterator[Selection]:
    """Selections of all items with repeats."""
    lot = np.random.default_rng(SEED)
    for _ in range(scored.resamples):
        yield lot.integers(scored.items, size=scored.items, dtype=np.intp)


def _cut(values: list[float], *, around: float) -> Interval | None:
    defined = np.array([value for value in values if not math.isnan(value)])
    if defined.size < LEAST_DEFINED * len(values):
        return None
    low, middle, high = np.quantile(defined, [(1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2]).tolist()
    return Interval(around + low - middle, around + high - middle)
