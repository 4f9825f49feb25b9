"""What do ONNX's operators on single numbers compute, in PyTorch?"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as f
from torch import Tensor

from shoal_converters.paths.onnx_in_torch.node import Node

Operator = Callable[..., Any]


def _plain(function: Callable[..., Tensor]) -> Operator:
    return lambda node, *inputs: function(*inputs)


def _fold(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    return lambda node, *inputs: reduce(function, inputs)


def _divide(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return a / b if a.is_floating_point() else torch.div(a, b, rounding_mode="trunc")


def _mod(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return torch.fmod(a, b) if node.get("fmod", 0) else torch.remainder(a, b)


def _clip(node: Node, x: Tensor, *limits: Tensor | None) -> Tensor:
    low, high = (
        float(node.constant(place)) if node.has(place) else node.get(name) for place, name in ((1, "min"), (2, "max"))
    )
    if (low, high) == (0.0, 6.0):
        return f.relu6(x)
    return x if low is None and high is None else torch.clamp(x, low, high)


def _cast(node: Node, x: Tensor) -> Tensor:
    dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(node.get("to"))
    return x.to(torch.from_numpy(np.empty(0, dtype)).dtype)


def _prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    return torch.where(x > 0, x, x * slope)


def _gelu(node: Node, x: Tensor) -> Tensor:
    kind = node.get("approximate", b"none")
    return f.gelu(x, approximate=kind.decode() if isinstance(kind, bytes) else kind)


def _hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    return torch.clamp(x * node.get("alpha", 0.2) + node.get("beta", 0.5), 0.0, 1.0)


def _softmax(function: Callable[..., Tensor]) -> Operator:
    def compute(node: Node, x: Tensor) -> Tensor:
        if node.opset >= 13:  # the definition was changed then
            return function(x, dim=node.get("axis", -1))
        axis = node.get("axis", 1) % x.ndim
        return function(x.flatten(axis), dim=axis).reshape(x.shape)

    return compute


ELEMENTWISE: Mapping[str, Operator] = {
    **{
        name: _plain(function)
        for name, function in {
            "Abs": torch.abs,
            "Atan": torch.atan,
            "Ceil": torch.ceil,
            "Cos": torch.cos,
            "Erf": torch.erf,
            "Exp": torch.exp,
            "Floor": torch.floor,
            "HardSwish": f.hardswish,
            "Identity": lambda x: x,
            "IsNaN": torch.isnan,
            "Log": torch.log,
            "Mish": f.mish,
            "Neg": torch.neg,
            "Not": torch.logical_not,
            "Reciprocal": torch.reciprocal,
            "Relu": f.relu,
            "Round": torch.round,
            "Sigmoid": torch.sigmoid,
            "Sign": torch.sign,
            "Sin": torch.sin,
            "Softplus": f.softplus,
            "Softsign": f.softsign,
            "Sqrt": torch.sqrt,
            "Tanh": torch.tanh,
            "And": torch.logical_and,
            "Or": torch.logical_or,
            "Xor": torch.logical_xor,
            "Equal": torch.eq,
            "Greater": torch.gt,
            "GreaterOrEqual": torch.ge,
            "Less": torch.lt,
            "LessOrEqual": torch.le,
            "Pow": torch.pow,
            "Sub": torch.sub,
            "Where": torch.where,
        }.items()
    },
    "Add": _fold(torch.add),
    "Mul": _fold(torch.mul),
    "Sum": _fold(torch.add),
    "Max": _fold(torch.maximum),
    "Min": _fold(torch.minimum),
    "Mean": lambda node, *inputs: reduce(torch.add, inputs) / len(inputs),
    "Div": _divide,
    "Mod": _mod,
    "Clip": _clip,
    "Cast": _cast,
    "Dropout": lambda node, x, *others: x,
    "Elu": lambda node, x: f.elu(x, node.get("alpha", 1.0)),
    "Celu": lambda node, x: f.celu(x, node.get("alpha", 1.0)),
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": lambda node, x: f.leaky_relu(x, node.get("alpha", 0.01)),
    "LogSoftmax": _softmax(f.log_softmax),
    "PRelu": _prelu,
    "Softmax": _softmax(f.softmax),
}
"""By operator; see https://onnx.ai/onnx/operators for what each is."""
