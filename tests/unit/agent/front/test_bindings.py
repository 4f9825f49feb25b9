"""Do a file's tensors become those of the signature and the other way round, as its bindings say?"""

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from shoal_agent.front.bindings import AS_IT_IS, Array, Bindings
from shoal_agent.front.operations.errors import BadPipeline
from shoal_wire.manifest import INTEGERS, Binding, Tensor
from shoal_worker.errors import BadTensor


def bindings(
    dtype: str = "int8", *, scale: float = 0.0, zero_point: int = 0, permutation: tuple[int, ...] = (), rank: int = 1
) -> Bindings:
    """An input `x` and an output `y` in float32, which the file has in the same way as `fx` and `fy`."""
    shape = (-1,) * rank
    bound = [
        Binding(tensor, f"f{tensor}", dtype, shape, permutation=permutation, scale=scale, zero_point=zero_point)
        for tensor in ("x", "y")
    ]
    return Bindings(bound, inputs=[Tensor("x", "float32", shape)], outputs=[Tensor("y", "float32", shape)])


def there(bound: Bindings, array: Array) -> Array:
    (found,) = bound.to_file({"x": array}).items()
    assert found[0] == "fx"
    return found[1]


def back(bound: Bindings, array: Array) -> Array:
    (found,) = bound.from_file({"fy": array}).items()
    assert found[0] == "y"
    return found[1]


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.25, 1), (0.75, 3), (1.25, 3), (-0.25, 1), (-0.75, -1), (63.5, 127), (1e30, 127), (-64.5, -128), (-1e30, -128)],
)
def test_quantizing_rounds_half_to_even_and_saturates(value: float, expected: int) -> None:
    """By hand, with steps of 0.5 around a zero point of 1: 0.25 is half a step, which rounds to none."""
    found = there(bindings(scale=0.5, zero_point=1), np.array([value], np.float32))
    assert found.dtype == np.int8 and found.tolist() == [expected]


@given(st.data())
def test_what_was_quantized_comes_back_within_half_a_step(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["int8", "uint8", "int16", "uint16", "int32"]))
    least, greatest = INTEGERS[dtype]
    zero_point = data.draw(st.integers(least, greatest))
    scale = data.draw(st.floats(1e-6, 1e3))
    steps = data.draw(st.lists(st.integers(max(least, -40_000), min(greatest, 70_000)), min_size=1, max_size=8))
    values = np.array([(step - zero_point) * scale for step in steps], np.float32)
    values += np.float32(data.draw(st.floats(-0.49, 0.49)) * scale)
    bound = bindings(dtype, scale=scale, zero_point=zero_point)

    found = back(bound, there(bound, values))

    assert found.dtype == np.float32
    rounding = 4 * np.finfo(np.float32).eps * np.abs(values).astype(np.float64)
    assert (np.abs(found.astype(np.float64) - values) <= 0.5 * scale * (1 + 1e-3) + rounding).all()


@given(st.data())
def test_axes_come_back_as_they_were(data: st.DataObject) -> None:
    array = data.draw(hnp.arrays(np.float32, hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), elements=st.just(1)))
    array[...] = np.arange(array.size).reshape(array.shape)
    permutation = tuple(data.draw(st.permutations(range(array.ndim))))
    bound = bindings("float32", permutation=permutation, rank=array.ndim)

    turned = there(bound, array)

    assert turned.shape == tuple(array.shape[axis] for axis in permutation)
    assert np.array_equal(turned, np.transpose(array, permutation))
    assert np.array_equal(back(bound, turned), array)


def test_picture_in_planes_becomes_one_of_pixels_in_bytes() -> None:
    """By hand: channel, row, column to row, column, channel, and 1 / 255 a step."""
    bound = Bindings(
        [Binding("image", "pixels", "uint8", (1, 1, 2, 3), permutation=(0, 2, 3, 1), scale=1 / 255)],
        inputs=[Tensor("image", "float32", (-1, 3, 1, 2))],
        outputs=[],
    )
    red, green, blue = [[0.0, 1.0]], [[0.2, 0.4]], [[0.6, 0.8]]

    found = bound.to_file({"image": np.array([[red, green, blue]], np.float32), "size": np.array([2])})

    assert found["pixels"].tolist() == [[[[0, 51, 153], [255, 102, 204]]]]
    assert found["size"].tolist() == [2]


def test_nothing_is_copied_where_nothing_is_to_be_done() -> None:
    array = np.zeros((2, 3), np.float32)
    assert AS_IT_IS.to_file({"x": array})["x"] is array
    turned = there(bindings("float32", permutation=(1, 0), rank=2), array)
    assert np.shares_memory(turned, array)


def test_outputs_are_the_callers_own() -> None:
    """What the worker sends lies in memory that it writes to again."""
    shared = np.zeros((2, 3), np.float32)
    for bound, name in ((AS_IT_IS, "y"), (bindings("float32", permutation=(1, 0), rank=2), "fy")):
        (found,) = bound.from_file({name: shared}).values()
        assert not np.shares_memory(found, shared) and found.flags.c_contiguous


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        ("float16", [0.1, -2.0], np.array([0.1, -2.0], np.float16)),
        ("int8", [2.5, 3.5, 400.0], np.array([2, 4, 127], np.int8)),
        ("int64", [1e30], np.array([2**63 - 1024], np.int64)),
    ],
)
def test_without_a_scale_values_are_converted_only(dtype: str, values: list[float], expected: Array) -> None:
    found = there(bindings(dtype), np.array(values))
    assert found.dtype == expected.dtype and np.array_equal(found, expected)


def test_whole_numbers_do_not_wrap_in_a_narrower_type() -> None:
    narrow = Bindings([Binding("tokens", "ids", "int32", (-1,))], inputs=[Tensor("tokens", "int64", (-1,))], outputs=[])
    assert narrow.to_file({"tokens": np.array([7, 1 << 40, -(1 << 40)])})["ids"].tolist() == [7, 2**31 - 1, -(2**31)]


def test_output_that_is_named_like_anothers_file_tensor_is_not_taken_for_it() -> None:
    swapped = Bindings(
        [Binding("a", "b", "float32", (1,)), Binding("b", "a", "float32", (1,))],
        inputs=[],
        outputs=[Tensor("a", "float32", (1,)), Tensor("b", "float32", (1,))],
    )
    found = swapped.from_file({"a": np.array([1.0]), "b": np.array([2.0])})
    assert (found["a"].item(), found["b"].item()) == (2.0, 1.0)


def test_values_that_are_not_numbers_cannot_be_quantized() -> None:
    with pytest.raises(BadTensor, match="'x' holds values that aren't numbers, which int8 can't hold"):
        there(bindings(scale=0.5), np.array([np.nan], np.float32))


def test_file_that_has_other_tensors_than_its_bindings_say_is_refused() -> None:
    with pytest.raises(BadTensor, match=r"the model's outputs are \['z'\], expected 'fy' for 'y'"):
        bindings(scale=0.5).from_file({"z": np.zeros(1, np.int8)})
    with pytest.raises(BadTensor, match=r"'y' has 1 axes, found shape \[1, 1\]"):
        back(bindings(scale=0.5), np.zeros((1, 1), np.int8))


def test_bindings_that_contradict_the_signature_are_refused() -> None:
    with pytest.raises(BadPipeline, match="bindings: binding of 'x', which is none of the model's tensors"):
        Bindings([Binding("x", "x", "int8", (1,))], inputs=[], outputs=[])
    with pytest.raises(BadPipeline, match="'x' is bfloat16, expected one of"):
        Bindings([Binding("x", "x", "bfloat16", (1,))], inputs=[Tensor("x", "float32", (1,))], outputs=[])
