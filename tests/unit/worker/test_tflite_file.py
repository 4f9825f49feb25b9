"""Is a model that tflite-runtime would compute wrongly seen in its file?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_worker.tflite_file import BrokenFile, find_per_channel_hybrid

from tests.tflite_bytes import add_model, hybrid_model, matmul_model

WEIGHTS = np.array([[1, 2], [30, 40]], np.float32)
WRONG = hybrid_model(WEIGHTS, is_per_channel=True)


@pytest.mark.parametrize("version", [1, 5, 11])
def test_finds_a_fully_connected_operator_with_a_scale_for_each_channel(version: int) -> None:
    found = find_per_channel_hybrid(hybrid_model(WEIGHTS, is_per_channel=True, version=version))
    assert found == "FULLY_CONNECTED with weights 'weights'"


@pytest.mark.parametrize(
    "model",
    [
        add_model(),
        matmul_model(size=2, repeats=2),
        hybrid_model(WEIGHTS, is_per_channel=False),
        hybrid_model(WEIGHTS, is_per_channel=True, version=12),  # the operator's version tells old engines
        hybrid_model(WEIGHTS, is_per_channel=True, operator="CONV_2D"),
    ],
    ids=["no-weights", "float", "one-scale", "says-so-itself", "convolution"],
)
def test_finds_nothing_in_models_that_are_computed_right(model: bytes) -> None:
    assert find_per_channel_hybrid(model) is None


@pytest.mark.parametrize("size", [0, 4, 8, 100])
def test_a_file_that_was_cut_off_is_broken(size: int) -> None:
    with pytest.raises(BrokenFile):
        find_per_channel_hybrid(WRONG[:size])


@given(at=st.integers(0, len(WRONG) - 1), byte=st.integers(0, 255))
@settings(max_examples=300)
def test_whatever_the_bytes_are_it_answers_or_calls_them_broken(at: int, byte: int) -> None:
    damaged = WRONG[:at] + bytes([byte]) + WRONG[at + 1 :]
    try:
        found = find_per_channel_hybrid(damaged)
    except BrokenFile:
        return
    assert found is None or found.startswith("FULLY_CONNECTED")
