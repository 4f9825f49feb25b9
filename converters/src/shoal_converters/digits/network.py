"""How does a convolutional network come to read digits without a framework that trains networks?

Its filters are random and stay so; only the last layer is fitted, by logistic regression on what the filters give. That
random filters with pooling are good features: K. Jarrett et al., "What is the best multi-stage architecture for object
recognition?", ICCV 2009; A. Saxe et al., "On random weights and unsupervised feature learning", ICML 2011; the idea for
any network: A. Rahimi and B. Recht, "Weighted sums of random kitchen sinks", NIPS 2008.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from shoal_converters.digits.network_file import INPUT, Linear, write_network

FILTERS = (64, 512, 512)
"""Of each layer. Where a layer has 64 channels or more to add up, 8-bit multiplications pay."""
KERNEL = 3
PARTS = 2
"""On a side: the last filters' outputs are averaged over 2 x 2 parts of the picture."""
SEED = 0
PENALTY = 100.0
"""Of the square of the last layer's weights, for features that all vary alike."""
LEAST_SPREAD = 1e-3
"""Of the largest one: a feature that hardly varies isn't blown up."""
MOST_ITERATIONS = 300
BATCH = 16
"""Pictures: more don't fit into the processor's cache with what becomes of them."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """Convolutions with ReLU, the average over parts of the picture, and a linear layer."""

    filters: tuple[NDArray[np.float32], ...]
    """Of each layer, [filters, channels, KERNEL, KERNEL]."""
    last: Linear

    def to_onnx(self, *, side: int) -> bytes:
        """As an ONNX file for pictures of `side` x `side` pixels: see `write_network`."""
        return write_network(self.filters, side=side, parts=PARTS, last=self.last)


def train(inputs: NDArray[np.float32], digits: NDArray[np.int64], *, filters: Sequence[int] = FILTERS) -> Network:
    """A network that tells which class its input is of; the same from the same arguments.

    `inputs`: [n, 1, side, side]; `digits`: [n], classes from 0. `filters`: how many in each layer.

    Raises:
        ToolMissing: onnx isn't installed.
    """
    drawn = draw_filters(filters)
    features = _compute_features(drawn, inputs)
    return Network(filters=drawn, last=_fit(features, digits))


def draw_filters(counts: Sequence[int]) -> tuple[NDArray[np.float32], ...]:
    """Random filters that sum to zero, and with which layers keep the variance of what they get.

    ReLU gives positive numbers only. A filter with another sum than zero would answer to their mean above all, be
    always on or always off, and waste the range of 8-bit activations. The variance: K. He et al., "Delving deep into
    rectifiers", ICCV 2015.
    """
    random = np.random.default_rng(SEED)
    drawn = []
    for channels, count in zip((1, *counts), counts, strict=False):
        layer = random.standard_normal((count, channels, KERNEL, KERNEL))
        layer -= layer.mean(axis=(1, 2, 3), keepdims=True)
        drawn.append((layer * np.sqrt(2 / layer[0].size)).astype(np.float32))
    return tuple(drawn)


def _compute_features(filters: Sequence[NDArray[np.float32]], inputs: NDArray[np.float32]) -> NDArray[np.float64]:
    """[n, features]."""
    file = write_network(filters, side=inputs.shape[2], parts=PARTS, last=None)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    batches = [session.run(None, {INPUT: inputs[at : at + BATCH]})[0] for at in range(0, len(inputs), BATCH)]
    return np.concatenate(batches).astype(np.float64)


def _fit(features: NDArray[np.float64], digits: NDArray[np.int64]) -> Linear:
    """Logistic regression on standardised features, as a layer that takes them as they are."""
    mean, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.maximum(spread, LEAST_SPREAD * spread.max())
    regression = LogisticRegression(C=1 / PENALTY, max_iter=MOST_ITERATIONS)
    # Its products are small: where other programs work, threads that wait for one another take a hundred times as long.
    with threadpool_limits(1):
        regression.fit((features - mean) / spread, digits)
    weights = regression.coef_ / spread
    bias = regression.intercept_ - weights @ mean
    return Linear(weights.T.astype(np.float32), bias.astype(np.float32))
