"""Does the digits example's network compute what it should, and does training find what tells classes apart?"""

from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from shoal_converters.digits.network import draw_filters, train
from shoal_converters.digits.network_file import INPUT, OUTPUT, Linear, write_network

Array = NDArray[np.float64]


def run_onnx(file: bytes, images: NDArray[np.float32]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == [INPUT]
    assert [one.name for one in session.get_outputs()] == [OUTPUT]
    found: NDArray[np.float32] = session.run(None, {INPUT: images})[0]
    return found


def convolve(image: Array, filters: Array) -> Array:
    """Cross-correlation with zeros around the picture, pixel by pixel: [channels, side, side] to [filters, ...]."""
    side, reach = image.shape[1], filters.shape[2] // 2
    wide = np.pad(image, ((0, 0), (reach, reach), (reach, reach)))
    found = np.empty((len(filters), side, side))
    for row in range(side):
        for column in range(side):
            seen = wide[:, row : row + filters.shape[2], column : column + filters.shape[3]]
            found[:, row, column] = (filters * seen).sum(axis=(1, 2, 3))
    return found


def compute(image: Array, filters: Sequence[Array], *, parts: int, last: Linear | None) -> Array:
    """The whole network for one picture, [1, side, side], in float64."""
    for layer in filters:
        image = np.maximum(convolve(image, layer), 0)
    part = image.shape[1] // parts
    means = [
        image[channel, row * part : (row + 1) * part, column * part : (column + 1) * part].mean()
        for channel in range(len(image))
        for row in range(parts)
        for column in range(parts)
    ]
    features: Array = np.array(means)
    return features if last is None else features @ last.weights.astype(np.float64) + last.bias


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("has_last", [False, True])
def test_onnx_file_computes_what_the_formulas_say(count: int, *, has_last: bool) -> None:
    random = np.random.default_rng(3)
    filters = tuple(random.standard_normal(shape).astype(np.float32) for shape in ((3, 1, 3, 3), (4, 3, 3, 3)))
    weights, bias = random.standard_normal((4 * 2 * 2, 5)), random.standard_normal(5)
    last = Linear(weights.astype(np.float32), bias.astype(np.float32)) if has_last else None
    images = random.random((count, 1, 6, 6)).astype(np.float32)
    found = run_onnx(write_network(filters, side=6, parts=2, last=last), images)
    wide = [layer.astype(np.float64) for layer in filters]
    expected = [compute(image.astype(np.float64), wide, parts=2, last=last) for image in images]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_filters_sum_to_zero_and_keep_the_variance() -> None:
    first, second = draw_filters((64, 32))
    assert (first.shape, second.shape) == ((64, 1, 3, 3), (32, 64, 3, 3))
    for layer, seen in ((first, 9), (second, 64 * 9)):
        np.testing.assert_allclose(layer.sum(axis=(1, 2, 3)), 0, atol=1e-4)
        # One of `seen` degrees of freedom went with the sum.
        assert layer.var() == pytest.approx(2 / seen * (1 - 1 / seen), rel=0.15)


def bars(count: int, *, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Pictures of one upright (0) or lying (1) bar somewhere, in noise."""
    random = np.random.default_rng(seed)
    images = 0.2 * random.random((count, 1, 8, 8))
    classes = np.arange(count) % 2
    for image, kind, place in zip(images, classes, random.integers(1, 7, count), strict=True):
        lines = image[0] if kind else image[0].T
        lines[place] += 0.8
    return images.astype(np.float32), classes


def test_training_finds_what_tells_classes_apart_and_finds_the_same_again() -> None:
    images, classes = bars(80, seed=1)
    network = train(images, classes, filters=(8, 8))
    file = network.to_onnx(side=8)
    assert file == train(images, classes, filters=(8, 8)).to_onnx(side=8)
    unseen, expected = bars(60, seed=2)
    logits = run_onnx(file, unseen)
    # scikit-learn has one row of weights for two classes: the logit of the second one.
    assert ((logits[:, 0] > 0) == expected).mean() > 0.95
