"""Are tensors of two models matched by name, else by shape and order, with their layouts?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.bindings import Bindings
from shoal_converters.comparing.matching import (
    LAYOUTS,
    bind_matches,
    find_permutation,
    fix_lengths,
    match_tensors,
    note_matches,
)
from shoal_converters.errors import BadModel
from shoal_wire.manifest import Binding, Tensor


def tensor(name: str, *shape: int, dtype: str = "float32") -> Tensor:
    return Tensor(name, dtype, shape)


def test_equal_names_are_matched_whatever_the_order() -> None:
    matches = match_tensors(
        [tensor("a", 1, 2), tensor("b", 1, 2)], [tensor("b", 1, 2), tensor("a", 1, 2)], what="input"
    )
    assert [(match.tensor.name, match.other.name) for match in matches] == [("a", "a"), ("b", "b")]
    assert list(note_matches(matches, what="input")) == []


def test_other_names_are_matched_by_shape_where_it_tells() -> None:
    matches = match_tensors(
        [tensor("a", 1, 2), tensor("b", 1, 3)], [tensor("x", 1, 3), tensor("y", 1, 2)], what="output"
    )
    assert [match.other.name for match in matches] == ["y", "x"]
    assert next(note_matches(matches, what="output")) == "output 'a' is taken for 'y': their names differ"


def test_other_names_of_one_shape_are_matched_by_order() -> None:
    matches = match_tensors(
        [tensor("a", 1, 2), tensor("b", 1, 2)], [tensor("x", 1, 2), tensor("y", 1, 2)], what="output"
    )
    assert [match.other.name for match in matches] == ["x", "y"]


def test_channels_first_and_last_are_the_same_data() -> None:
    (match,) = match_tensors([tensor("a", -1, 3, 8, 6)], [tensor("x", 1, 8, 6, 3)], what="input")
    assert match.permutation == (0, 2, 3, 1)
    assert fix_lengths(match) == (1, 3, 8, 6)


@pytest.mark.parametrize(
    ("reference", "other", "reason"),
    [
        ([tensor("a", 1, 2)], [], "1 and 0 inputs"),
        ([tensor("a", 1, 2)], [tensor("a", 1, 3)], r"their shapes are \[1, 2\] and \[1, 3\]"),
        ([tensor("a", 1, 2)], [tensor("a", 1, 2, 1)], "can't be"),
    ],
)
def test_refuses_what_cannot_be_the_same_data(reference: list[Tensor], other: list[Tensor], reason: str) -> None:
    with pytest.raises(BadModel, match=reason):
        match_tensors(reference, other, what="input")


@given(st.lists(st.integers(1, 9), min_size=3, max_size=5, unique=True), st.data())
def test_a_permutation_that_is_found_turns_one_shape_into_the_other(shape: list[int], data: st.DataObject) -> None:
    axes = data.draw(st.sampled_from(LAYOUTS[len(shape)]))
    other = [shape[axis] for axis in axes]
    assert find_permutation(shape, other) == axes


def test_layout_and_quantization_of_the_other_file_are_undone_together() -> None:
    signature = [tensor("a", 1, 3, 2, 2)]
    (match,) = match_tensors(signature, [tensor("x", 1, 2, 2, 3)], what="input")
    own = Binding("x", "x_in_file", "int8", (1, 2, 2, 3), scale=0.5, zero_point=-1)
    (bound,) = bind_matches([match], [own])
    feed = np.arange(12, dtype=np.float32).reshape(1, 3, 2, 2)
    given_file = Bindings([bound], inputs=signature, outputs=[]).to_file({"a": feed})
    expected = (feed.transpose(0, 2, 3, 1) * 2 - 1).astype(np.int8)
    np.testing.assert_array_equal(given_file["x_in_file"], expected)
