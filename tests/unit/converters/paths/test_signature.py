"""Are a file's tensors found to be those of the signature, whatever it calls them and however it lays them out?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.errors import BadModel
from shoal_converters.paths.signature import Quantized, bind, complete, narrow, to_file
from shoal_wire.manifest import Tensor

PICTURE = Tensor("picture", "float32", (1, 3, 8, 6))


def test_nothing_is_bound_where_all_is_as_in_the_signature() -> None:
    assert bind([PICTURE], [PICTURE], what="m") == ()


def test_channels_that_come_last_are_found() -> None:
    (binding,) = bind([PICTURE], [Tensor("x", "float32", (1, 8, 6, 3))], what="m")
    assert (binding.tensor, binding.name, binding.permutation) == ("picture", "x", (0, 2, 3, 1))
    array = np.arange(144, dtype=np.float32).reshape(1, 3, 8, 6)
    made = to_file({"picture": array}, [binding])["x"]
    assert made.shape == (1, 8, 6, 3)
    assert made[0, 5, 4, 2] == array[0, 2, 5, 4]


def test_names_come_before_places() -> None:
    a, b = Tensor("a", "float32", (2,)), Tensor("b", "float32", (2,))
    assert bind([a, b], [b, a], what="m") == ()


def test_shapes_tell_tensors_apart_that_have_other_names_and_another_order() -> None:
    a, b = Tensor("a", "float32", (2,)), Tensor("b", "float32", (2, 3))
    bound = bind([a, b], [Tensor("y", "float32", (2, 3)), Tensor("x", "float32", (2,))], what="m")
    assert {one.tensor: one.name for one in bound} == {"a": "x", "b": "y"}


def test_refuses_to_guess() -> None:
    wanted = [Tensor("a", "float32", (2,)), Tensor("b", "float32", (2, 3))]
    found = [Tensor("x", "float32", (2, 3)), Tensor("y", "float32", (2, 3))]
    with pytest.raises(BadModel, match="can't tell which is which"):
        bind(wanted, found, what="m")
    with pytest.raises(BadModel, match=r"expected a float32\[2\], b .* found x"):
        bind(wanted, found[:1], what="m")


def test_refuses_a_shape_that_no_permutation_makes_fit() -> None:
    with pytest.raises(BadModel, match=r"picture float32\[1, 3, 8, 6\], found picture float32\[1, 3, 8, 7\]"):
        bind([PICTURE], [Tensor("picture", "float32", (1, 3, 8, 7))], what="m")


def test_free_lengths_fit_no_permutation_that_turns_one_length_into_another() -> None:
    with pytest.raises(BadModel):
        bind([Tensor("x", "float32", (-1, 9))], [Tensor("x", "float32", (-1, 8))], what="m")


def test_channels_are_found_where_height_and_width_are_free() -> None:
    (binding,) = bind([Tensor("x", "float32", (-1, 3, -1, -1))], [Tensor("x", "float32", (1, -1, -1, 3))], what="m")
    assert binding.permutation == (0, 2, 3, 1)


def test_a_length_that_is_fixed_in_the_file_is_told() -> None:
    (binding,) = bind([Tensor("x", "float32", (-1, 4))], [Tensor("x", "float32", (1, 4))], what="m")
    assert binding.shape == (1, 4)


def test_integers_for_real_numbers_are_made_with_the_files_parameters() -> None:
    found = Tensor("q", "int8", (4,))
    (binding,) = bind([Tensor("x", "float32", (4,))], [found], what="m", quantized={"q": Quantized(0.5, -3)})
    array = np.array([0.0, 0.74, -1000.0, 1000.0], np.float32)
    made = to_file({"x": array}, [binding])["q"]
    assert made.dtype == np.int8
    assert made.tolist() == [-3, -2, -128, 127]  # round(1.48) = 1, less 3; the others are held within int8


def test_a_scalar_stays_one() -> None:
    (binding,) = bind([Tensor("rate", "int64", ())], [Tensor("sr", "int64", ())], what="m")
    assert to_file({"rate": np.array(16000)}, [binding])["sr"].shape == ()


@given(order=st.permutations(range(4)), shape=st.lists(st.integers(2, 9), min_size=4, max_size=4, unique=True))
def test_any_permutation_is_found_where_lengths_differ(order: list[int], shape: list[int]) -> None:
    mine = Tensor("x", "float32", tuple(shape))
    its = Tensor("x", "float32", tuple(shape[axis] for axis in order))
    bound = bind([mine], [its], what="m")
    array = np.random.default_rng(0).random(shape, np.float32)
    made = to_file({"x": array}, bound)["x"]
    assert made.shape == its.shape
    assert np.array_equal(made, np.transpose(array, order))


def test_outputs_of_which_only_the_name_is_known_get_shape_and_type_of_the_file() -> None:
    found = [Tensor("a:0", "float32", (1, 4)), Tensor("b", "int64", (1,))]
    named = [Tensor("scores", "float32", ()), Tensor("b", "float32", ())]
    assert complete(named, found, what="m") == (Tensor("scores", "float32", (1, 4)), Tensor("b", "int64", (1,)))
    assert complete([], found, what="m") == tuple(found)
    with pytest.raises(BadModel, match=r"expected scores .*, found a:0"):
        complete(named[:1], found, what="m")


def test_lengths_that_the_signature_states_hold_for_axes_that_the_file_leaves_free() -> None:
    mine, its = Tensor("picture", "float32", (-1, 3, 8, 6)), Tensor("x", "float32", (-1, -1, -1, 3))
    bindings = bind([mine], [its], what="m")
    assert narrow([its], [mine], bindings=bindings) == (Tensor("x", "float32", (-1, 8, 6, 3)),)
    assert narrow([its], [], bindings=()) == (its,)
