"""What do Core ML's operators on single numbers compute, in PyTorch?

The rules are those of the operators' documentation in coremltools (Model Intermediate Language).
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as f
from torch import Tensor

from shoal_converters.paths.coreml_in_torch.operation import Operation

Operator = Callable[[Operation], Any]

CASTS: Mapping[str, torch.dtype] = {
    "fp16": torch.float32,  # the result is rounded as its type says
    "fp32": torch.float32,
    "int32": torch.int64,
    "int16": torch.int64,
    "int8": torch.int64,
    "uint8": torch.int64,
    "uint16": torch.int64,
    "bool": torch.bool,
}


def _unary(function: Callable[[Tensor], Tensor]) -> Operator:
    return lambda one: function(one.x)


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    return lambda one: function(one.x, one.tensor("y"))


def _by_channel(slopes: Tensor, x: Tensor) -> Tensor:
    return slopes.reshape(-1, *[1] * (x.ndim - 2))


def _prelu(one: Operation) -> Tensor:
    return torch.where(one.x >= 0, one.x, one.x * _by_channel(one.tensor("alpha"), one.x))


def _gelu(one: Operation) -> Tensor:
    mode = one.text("mode", "EXACT")
    if mode == "SIGMOID_APPROXIMATION":
        return one.x * torch.sigmoid(1.702 * one.x)
    return f.gelu(one.x, approximate="none" if mode == "EXACT" else "tanh")


def _softplus_parametric(one: Operation) -> Tensor:
    alpha, beta = (_by_channel(one.tensor(name), one.x) for name in ("alpha", "beta"))
    return alpha * f.softplus(beta * one.x)


ELEMENTWISE: Mapping[str, Operator] = {
    "abs": _unary(torch.abs),
    "atan": _unary(torch.atan),
    "ceil": _unary(torch.ceil),
    "cos": _unary(torch.cos),
    "erf": _unary(torch.erf),
    "exp": _unary(torch.exp),
    "exp2": _unary(torch.exp2),
    "floor": _unary(torch.floor),
    "identity": _unary(lambda x: x),
    "logical_not": _unary(torch.logical_not),
    "relu": _unary(f.relu),
    "relu6": _unary(f.relu6),
    "round": _unary(torch.round),
    "sigmoid": _unary(torch.sigmoid),
    "sign": _unary(torch.sign),
    "silu": _unary(f.silu),
    "sin": _unary(torch.sin),
    "softplus": _unary(f.softplus),
    "softsign": _unary(f.softsign),
    "sqrt": _unary(torch.sqrt),
    "square": _unary(torch.square),
    "tanh": _unary(torch.tanh),
    "add": _binary(torch.add),
    "equal": _binary(torch.eq),
    "floor_div": _binary(torch.floor_divide),
    "greater": _binary(torch.gt),
    "greater_equal": _binary(torch.ge),
    "less": _binary(torch.lt),
    "less_equal": _binary(torch.le),
    "logical_and": _binary(torch.logical_and),
    "logical_or": _binary(torch.logical_or),
    "logical_xor": _binary(torch.logical_xor),
    "maximum": _binary(torch.maximum),
    "minimum": _binary(torch.minimum),
    "mod": _binary(torch.remainder),
    "mul": _binary(torch.mul),
    "not_equal": _binary(torch.ne),
    "pow": _binary(torch.pow),
    "real_div": _binary(torch.true_divide),
    "sub": _binary(torch.sub),
    "cast": lambda one: one.x.to(CASTS[one.text("dtype", "")]),
    "clamped_relu": lambda one: torch.clamp(f.leaky_relu(one.x, one.number("alpha")), max=one.number("beta")),
    "clip": lambda one: torch.clamp(one.x, one.number("alpha"), one.number("beta")),
    "elu": lambda one: f.elu(one.x, one.number("alpha", 1.0)),
    "gelu": _gelu,
    "inverse": lambda one: torch.reciprocal(one.x + one.number("epsilon", 1e-4)),
    "leaky_relu": lambda one: f.leaky_relu(one.x, one.number("alpha", 0.01)),
    "linear_activation": lambda one: one.x * one.number("alpha") + one.number("beta", 0.0),
    "log": lambda one: torch.log(one.x + one.number("epsilon", 1e-45)),
    "prelu": _prelu,
    "rsqrt": lambda one: torch.rsqrt(one.x + one.number("epsilon", 1e-12)),
    "scaled_tanh": lambda one: one.number("alpha", 1.0) * torch.tanh(one.x * one.number("beta", 1.0)),
    "select": lambda one: torch.where(one.tensor("cond").bool(), one.tensor("a"), one.tensor("b")),
    "sigmoid_hard": lambda one: torch.clamp(one.x * one.number("alpha", 0.2) + one.number("beta", 0.5), 0.0, 1.0),
    "softmax": lambda one: torch.softmax(one.x, one.integer("axis", -1)),
    "softplus_parametric": _softplus_parametric,
    "thresholded_relu": lambda one: torch.where(one.x >= one.number("alpha", 1.0), one.x, torch.zeros_like(one.x)),
    "threshold": lambda one: torch.clamp(one.x, min=one.number("alpha")),
}
"""By operator."""
