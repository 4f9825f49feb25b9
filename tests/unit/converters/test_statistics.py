"""Do intervals hold what they say, and do they say the same every time?"""

import numpy as np
import pytest
from numpy.typing import NDArray
from shoal_converters.statistics import find_difference, find_interval
from shoal_converters.tasks.task import Scored, Selection


def share(rights: NDArray[np.bool_]) -> Scored:
    return Scored(items=len(rights), measure=lambda selection: float(rights[selection].mean()), rights=rights)


def mean(values: NDArray[np.float64], *, resamples: int = 1_000) -> Scored:
    def measure(selection: Selection) -> float:
        return float(values[selection].mean()) if selection.size else float("nan")

    return Scored(items=len(values), measure=measure, resamples=resamples)


def marks(right: int, wrong: int) -> NDArray[np.bool_]:
    return np.array([True] * right + [False] * wrong)


@pytest.mark.parametrize(
    ("right", "wrong", "low", "high"),
    [
        (10, 0, 0.025**0.1, 1.0),  # the lowest share of which ten of ten are right in 2.5 % of all sets
        (0, 20, 0.0, 0.1684),
        (1, 28, 0.0009, 0.1776),
        (81, 182, 0.2527, 0.3676),
    ],
)
def test_a_share_has_the_exact_interval(right: int, wrong: int, low: float, high: float) -> None:
    """The last three as Newcombe has them (Statistics in Medicine 17, 1998, table I)."""
    interval = find_interval(share(marks(right, wrong)))
    assert interval is not None
    assert interval.low == pytest.approx(low, abs=6e-5)
    assert interval.high == pytest.approx(high, abs=6e-5)


def test_a_mean_has_nearly_the_interval_that_theory_gives() -> None:
    values = np.random.default_rng(1).normal(0.5, 0.2, size=400)
    interval = find_interval(mean(values))
    assert interval is not None
    reach = 1.96 * values.std() / np.sqrt(400)
    assert interval.low == pytest.approx(values.mean() - reach, abs=0.003)
    assert interval.high == pytest.approx(values.mean() + reach, abs=0.003)
    assert find_interval(mean(values)) == interval


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """95 % of 200 are 190, give or take 3 standard deviations, 9."""
    lot = np.random.default_rng(2)
    held = 0
    for _ in range(200):
        interval = find_interval(mean(lot.exponential(0.1, size=150), resamples=300))
        assert interval is not None
        held += interval.low <= 0.1 <= interval.high
    assert 178 <= held <= 199


def test_an_interval_holds_its_metric_where_repeats_flatter_it() -> None:
    """A metric of the share of different items in a selection: every resample has fewer."""
    values = np.arange(50.0)
    scored = Scored(items=50, measure=lambda selection: len(set(values[selection])) / 50)
    interval = find_interval(scored)
    assert interval is not None
    assert 0.9 < interval.low < scored.value == interval.high == 1.0


def test_a_metric_that_is_not_defined_has_no_interval() -> None:
    assert find_interval(mean(np.array([]))) is None
    assert find_interval(mean(np.array([1.0, np.nan]))) is None
    mostly_undefined = Scored(items=4, measure=lambda selection: 1.0 if len(set(selection)) == 4 else float("nan"))
    assert find_interval(mostly_undefined) is None


def test_what_is_hard_for_both_says_nothing_of_their_difference() -> None:
    """Items differ by far more than the variants do; paired, the difference is plain."""
    items = np.random.default_rng(3).normal(0.0, 10.0, size=100)
    difference = find_difference(mean(items), mean(items - 0.5))
    assert difference.drop == pytest.approx(0.5)
    assert difference.interval is not None
    assert difference.interval.low == pytest.approx(0.5)
    assert difference.interval.high == pytest.approx(0.5)


def test_matched_shares_have_agresti_and_mins_interval() -> None:
    """Worked by hand for 30 lost, 10 gained, 100 in all: (30.5 - 10.5) / 102 give or take
    1.96 * sqrt(30.5 + 10.5 - 20 ** 2 / 102) / 102, which is 0.1961 give or take 0.1170.
    """
    original = np.array([True] * 30 + [False] * 10 + [True] * 60)
    variant = np.array([False] * 30 + [True] * 10 + [True] * 60)
    difference = find_difference(share(original), share(variant))
    assert difference.drop == pytest.approx(0.2)
    assert difference.interval is not None
    assert difference.interval.low == pytest.approx(0.0791, abs=2e-4)
    assert difference.interval.high == pytest.approx(0.3131, abs=2e-4)


def test_no_difference_seen_is_not_none_for_sure() -> None:
    rights = marks(40, 10)
    difference = find_difference(share(rights), share(rights))
    assert difference.drop == 0.0
    assert difference.interval is not None
    assert difference.interval.low == -difference.interval.high < -0.01


def test_refuses_answers_to_other_items() -> None:
    with pytest.raises(ValueError, match="2 answers of the variant, expected 3"):
        find_difference(share(marks(3, 0)), share(marks(2, 0)))
