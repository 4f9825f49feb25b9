"""Is a conversion that computes something else told apart from one that only rounds otherwise?"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_converters.building.source_check import find_gap
from shoal_converters.recipe import Budget
from shoal_wire.manifest import Tensor

ALLOWED = Budget().max_source_difference
SCORES, PLACE = Tensor("scores", "float32", (-1, 4)), Tensor("place", "int64", (-1,))
ONES = np.ones((1, 4), np.float32)


def calls(*arrays: NDArray[Any], name: str = "scores") -> list[dict[str, NDArray[Any]]]:
    return [{name: array} for array in arrays]


def test_equal_outputs_have_no_gap() -> None:
    assert find_gap([SCORES], calls(ONES), calls(ONES)) == ("scores", 0.0)


def test_the_gap_is_that_of_the_worst_call_relative_to_the_size_of_all() -> None:
    found = calls(ONES, ONES + np.float32(0.5))
    assert find_gap([SCORES], calls(ONES, ONES), found).difference == pytest.approx(0.5)


def test_the_output_that_differs_most_is_named() -> None:
    boxes = Tensor("boxes", "float32", (-1, 4))
    expected = [{"scores": ONES, "boxes": 10 * ONES}]
    found = [{"scores": ONES, "boxes": 11 * ONES}]
    gap = find_gap([SCORES, boxes], expected, found)
    assert gap.output == "boxes"
    assert gap.difference == pytest.approx(0.1)


@given(st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_rounding_in_float32_is_allowed(terms: int, seed: int) -> None:
    """Sums of products in float32, beside the same in float64."""
    random = np.random.default_rng(seed)
    rows, weights = random.standard_normal((8, terms)), random.standard_normal((terms, 4))
    rounded = rows.astype(np.float32) @ weights.astype(np.float32)
    assert find_gap([SCORES], calls(rows @ weights), calls(rounded)).difference < ALLOWED


def test_outputs_that_are_nearly_nothing_may_differ_by_nearly_nothing() -> None:
    assert find_gap([SCORES], calls(ONES * 0), calls(ONES * np.float32(1e-8))).difference < ALLOWED
    assert find_gap([SCORES], calls(ONES * 0), calls(ONES)).difference > ALLOWED


@pytest.mark.parametrize("found", [ONES * np.float32("nan"), ONES * np.float32("inf"), np.ones((1, 5), np.float32)])
def test_what_can_not_be_compared_is_infinitely_far(found: NDArray[Any]) -> None:
    assert math.isinf(find_gap([SCORES], calls(ONES), calls(found)).difference)


def test_whole_numbers_count_where_there_are_no_others() -> None:
    expected, found = calls(np.arange(4), name="place"), calls(np.array([0, 1, 2, 9]), name="place")
    assert find_gap([PLACE], expected, found) == ("place", 0.25)
    both = [{**expected[0], "scores": ONES}], [{**found[0], "scores": ONES}]
    assert find_gap([PLACE, SCORES], *both) == ("scores", 0.0)
