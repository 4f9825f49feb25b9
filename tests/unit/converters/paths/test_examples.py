from pathlib import Path

import numpy as np
import pytest
from shoal_converters.errors import BadRecipe
from shoal_converters.paths.examples import fix_shapes, make_examples
from shoal_converters.paths.messages import Request
from shoal_wire.manifest import Tensor

IDS = Tensor("ids", "int64", (-1, -1))
SOUND = Tensor("sound", "float32", (-1, 16))


def request(folder: Path, *calls: dict[str, tuple[int, ...]]) -> Request:
    calibration = ""
    if calls:
        calibration = f"{folder / 'calls.npz'}"
        arrays = {
            f"{n}/{name}": np.ones(shape, np.int64) for n, call in enumerate(calls) for name, shape in call.items()
        }
        np.savez(calibration, allow_pickle=False, **arrays)
    return Request(source="", format="onnx", folder="", variants=("tflite-fp32",), calibration=calibration)


def test_batch_becomes_one(tmp_path: Path) -> None:
    (fixed,) = fix_shapes(request(tmp_path), [SOUND])

    assert fixed == Tensor("sound", "float32", (1, 16))


def test_other_free_axis_gets_the_length_that_all_calls_have(tmp_path: Path) -> None:
    asked = request(tmp_path, {"ids": (1, 32)}, {"ids": (3, 32)})

    assert fix_shapes(asked, [IDS])[0].shape == (1, 32)
    assert [one.shape for one in make_examples(asked, [IDS], batch=2)] == [(2, 32)]


def test_says_which_lengths_calls_have_if_they_differ(tmp_path: Path) -> None:
    asked = request(tmp_path, {"ids": (1, 32)}, {"ids": (1, 48)})

    with pytest.raises(BadRecipe, match=r"input ids: axis 1 is free.*pre-processing gives \[32, 48\]"):
        fix_shapes(asked, [IDS])
    assert [one.shape for one in make_examples(asked, [IDS])] == [(1, 48)]


def test_wants_a_length_if_there_are_no_calls(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match="there are no items to tell"):
        fix_shapes(request(tmp_path), [IDS])


def test_refuses_calls_that_lack_an_input(tmp_path: Path) -> None:
    with pytest.raises(BadRecipe, match=r"takes sound\[-1, 16\], but pre-processing gives ids\[1, 32\]"):
        fix_shapes(request(tmp_path, {"ids": (1, 32)}), [SOUND])


def test_made_up_examples_are_always_the_same(tmp_path: Path) -> None:
    first, second = (make_examples(request(tmp_path), [SOUND], batch=3)[0] for _ in range(2))

    assert (first.shape, first.dtype.name) == ((3, 16), "float32")
    assert (first == second).all()
