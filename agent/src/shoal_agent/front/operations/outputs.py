"""Is an output there, does it hold numbers, and what do they say as scores?"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.values import Outputs, Tensors

Name = Annotated[str, Meta(min_length=1, max_length=200)]
"""Of a tensor in the model's signature."""
OptionalName = Annotated[str, Meta(max_length=200)]
"""Of a tensor that some models don't have; empty: this one doesn't."""
Fraction = Annotated[float, Meta(ge=0, le=1)]
Finite = Annotated[float, Meta(ge=-1e30, le=1e30)]
SCORE_SLACK = 0.01
"""How far a score may lie outside [0, 1]: rounded to 8 bits, one may be half a step (0.002) beyond, and a little more
where the range was calibrated too wide."""
Activation = Literal["none", "sigmoid", "softmax"]
Kinds = Literal["f", "iu", "fiu"]
"""What `numpy.dtype.kind` may be: that of floats, of integers, or either."""
Numbers = NDArray[np.float64]

_KINDS: Mapping[Kinds, str] = {"f": "finite floats", "iu": "integers", "fiu": "finite numbers"}


def take_only_call(outputs: Outputs[Any]) -> Tensors:
    """The outputs of a model that is asked once for each item.

    Raises:
        BadOutput: it was asked several times, or never.
    """
    if len(outputs.calls) != 1:
        raise BadOutput(f"outputs of {len(outputs.calls)} inferences, expected 1")
    return outputs.calls[0]


def read_output(call: Tensors, *, name: str) -> Numbers:
    """One output as float64, of the shape that it has.

    Raises:
        BadOutput: it is missing, or holds what isn't a finite number.
    """
    return np.asarray(_take(call, name=name, kinds="fiu"), dtype=np.float64)


def read_shaped(call: Tensors, *, name: str, shape: tuple[int, ...], kinds: Kinds = "f") -> NDArray[Any]:
    """One output as it is. A dimension of -1 is free.

    Raises:
        BadOutput: it is missing, of another shape or kind, or holds what isn't a finite number.
    """
    output = _take(call, name=name, kinds=kinds)
    fits = output.ndim == len(shape) and all(want in (-1, is_) for want, is_ in zip(shape, output.shape, strict=True))
    if not fits:
        raise BadOutput(f"output {name!r} has the shape {list(output.shape)}, expected {list(shape)} (-1: any)")
    return output


def read_row(call: Tensors, *, name: str, at_most: int) -> Numbers:
    """An output of values in one dimension, with 1 in all others: [n], [1, n] and [1, n, 1, 1] become float64[n].

    Raises:
        BadOutput: it is missing, of another shape, empty, longer than allowed, or holds what isn't a finite number.
    """
    output = read_output(call, name=name)
    if not 0 < output.size <= at_most or output.size != max(output.shape, default=1):
        raise BadOutput(
            f"output {name!r} has the shape {list(output.shape)}, expected 1 to {at_most} values in one dimension and "
            "1 in the others"
        )
    return output.reshape(-1)


def activate(values: Numbers, *, activation: Activation) -> Numbers:
    """Logits as scores: the logistic function of each, or a softmax along the last axis; no value overflows."""
    if activation == "sigmoid":
        return 0.5 + 0.5 * np.tanh(values / 2)  # 1 / (1 + exp(-x)), rewritten
    if activation == "softmax":
        powers = np.exp(values - values.max(axis=-1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=-1, keepdims=True))
    return values


def check_scores(values: Numbers, *, name: str) -> Numbers:
    """Scores held to [0, 1].

    Raises:
        BadOutput: one lies outside by more than SCORE_SLACK.
    """
    if values.size and (values.min() < -SCORE_SLACK or values.max() > 1 + SCORE_SLACK):
        raise BadOutput(
            f"output {name!r} holds values from {values.min():.4g} to {values.max():.4g}, expected scores in [0, 1]; "
            "logits need the activation softmax or sigmoid"
        )
    return np.clip(values, 0.0, 1.0)


def _take(call: Tensors, *, name: str, kinds: Kinds) -> NDArray[Any]:
    if name not in call:
        raise BadOutput(f"output {name!r} is missing, found {sorted(call)}")
    output = call[name]
    if output.dtype.kind not in kinds or not np.isfinite(output).all():
        raise BadOutput(f"output {name!r} ({output.dtype}) holds values that are not {_KINDS[kinds]}")
    return output
