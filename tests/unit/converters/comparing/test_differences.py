"""Are the measures of two tensors those of their definitions?"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from shoal_converters.comparing.differences import Difference, Meter

FINITE = st.floats(-1e6, 1e6, width=32)


def measure(*pairs: tuple[object, object]) -> Difference:
    meter = Meter()
    for reference, other in pairs:
        meter.add(np.asarray(reference, np.float32), np.asarray(other, np.float32))
    return meter.read()


def test_measures_over_all_calls() -> None:
    found = measure(([[3.0, 4.0]], [[3.0, 4.0]]), ([[0.0, 0.0]], [[0.0, 1.0]]))
    assert found.max_abs == 1.0
    assert found.rms_relative == pytest.approx(math.sqrt(1 / 25))
    assert found.cosine == pytest.approx(25 / (5 * math.sqrt(26)))
    assert found.argmax_agreement == 0.5


@given(arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=5), elements=FINITE))
def test_a_tensor_does_not_differ_from_itself(values: np.ndarray) -> None:
    found = measure((values, values))
    assert (found.max_abs, found.rms_relative, found.not_finite) == (0.0, 0.0, 0)
    assert found.cosine == pytest.approx(1.0)
    assert found.argmax_agreement in (None, 1.0)


@given(arrays.arrays(np.float32, 8, elements=st.floats(1, 1e3, width=32)), st.floats(0.5, 2))
def test_a_scaled_tensor_has_the_same_direction(values: np.ndarray, scale: float) -> None:
    found = measure((values, values.astype(np.float64) * scale))
    assert found.cosine == pytest.approx(1.0, abs=1e-6)
    assert found.rms_relative == pytest.approx(abs(scale - 1), abs=1e-6)


def test_a_reference_of_zeros_is_infinitely_far_from_anything_else() -> None:
    assert measure(([0.0], [1e-9])).rms_relative == math.inf
    assert measure(([0.0], [0.0])) == Difference(max_abs=0.0, rms_relative=0.0, cosine=1.0)


def test_counts_values_that_are_numbers_in_one_only() -> None:
    found = measure(([1.0, math.nan, math.inf, 2.0], [1.0, math.nan, 5.0, math.nan]))
    assert (found.not_finite, found.max_abs) == (2, 0.0)
