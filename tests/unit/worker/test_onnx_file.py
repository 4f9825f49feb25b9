"""Is a model that names other files seen for what it is?"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from shoal_worker.onnx_file import find_external_file

from tests.onnx_bytes import add_model, external_weight_model, in_constant_of_branch, matmul_chain_model


def test_finds_weights_in_another_file() -> None:
    assert find_external_file(external_weight_model(location="weights.bin"))


def test_finds_them_in_a_constant_of_a_branch_too() -> None:
    assert find_external_file(in_constant_of_branch(location="weights.bin"))


def test_finds_none_in_models_that_are_whole() -> None:
    assert not find_external_file(add_model())
    assert not find_external_file(matmul_chain_model(size=4, length=3))


@given(model=st.binary(max_size=200))
def test_answers_whatever_the_bytes_are(model: bytes) -> None:
    assert find_external_file(model) in (True, False)
