"""What do Core ML's operators that are layers of networks compute, in PyTorch: convolutions, pools, norms, resizing?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as f
from torch import Tensor

from shoal_converters.paths.coreml_in_torch.elementwise import Operator
from shoal_converters.paths.coreml_in_torch.operation import Operation

CONVOLUTIONS: Mapping[int, Any] = {1: f.conv1d, 2: f.conv2d, 3: f.conv3d}
TRANSPOSED: Mapping[int, Any] = {1: f.conv_transpose1d, 2: f.conv_transpose2d, 3: f.conv_transpose3d}
MAX_POOLS: Mapping[int, Any] = {1: f.max_pool1d, 2: f.max_pool2d, 3: f.max_pool3d}
AVERAGE_POOLS: Mapping[int, Any] = {1: f.avg_pool1d, 2: f.avg_pool2d, 3: f.avg_pool3d}


def _conv(one: Operation) -> Tensor:
    weight, rank = one.tensor("weight"), one.x.ndim - 2
    strides, dilations = one.integers("strides", [1] * rank), one.integers("dilations", [1] * rank)
    kernel = [(length - 1) * by + 1 for length, by in zip(weight.shape[2:], dilations, strict=True)]
    x = f.pad(one.x, _flatten(_pads(one, kernel=kernel, strides=strides)))
    out: Tensor = CONVOLUTIONS[rank](x, weight, one.optional("bias"), strides, 0, dilations, one.integer("groups", 1))
    return out


def _conv_transpose(one: Operation) -> Tensor:
    rank = one.x.ndim - 2
    strides, dilations = one.integers("strides", [1] * rank), one.integers("dilations", [1] * rank)
    kind = one.text("pad_type", "valid")
    if kind not in ("valid", "custom"):
        raise one.refuse(f"pad_type {kind} isn't supported")
    whole: Tensor = TRANSPOSED[rank](
        one.x, one.tensor("weight"), one.optional("bias"), strides, 0, 0, one.integer("groups", 1), dilations
    )
    pads = one.integers("pad", [0] * (2 * rank)) if kind == "custom" else [0] * (2 * rank)
    lengths = one.integers("output_shape", list(whole.shape))[2:]
    for axis in range(rank):
        begin = pads[2 * axis]
        length = lengths[axis] if one.has("output_shape") else whole.shape[axis + 2] - begin - pads[2 * axis + 1]
        missing = begin + length - whole.shape[axis + 2]
        if missing > 0:
            raise one.refuse(f"output_shape {lengths} reaches beyond what the kernel gives")
        whole = whole.narrow(axis + 2, begin, length)
    return whole


def _max_pool(one: Operation) -> Tensor:
    rank, kernel = one.x.ndim - 2, one.integers("kernel_sizes")
    strides = one.integers("strides", [1] * rank)
    x = f.pad(one.x, _flatten(_pads(one, kernel=kernel, strides=strides)), value=-math.inf)
    out: Tensor = MAX_POOLS[rank](x, kernel, strides, ceil_mode=one.flag("ceil_mode"))
    return out


def _avg_pool(one: Operation) -> Tensor:
    rank, kernel = one.x.ndim - 2, one.integers("kernel_sizes")
    strides, ceil = one.integers("strides", [1] * rank), one.flag("ceil_mode")
    pads = _flatten(_pads(one, kernel=kernel, strides=strides))
    pool = AVERAGE_POOLS[rank]
    mean: Tensor = pool(f.pad(one.x, pads), kernel, strides, ceil_mode=ceil)
    if not one.flag("exclude_padding_from_average"):
        return mean
    share: Tensor = pool(f.pad(torch.ones(1, 1, *one.x.shape[2:]), pads), kernel, strides, ceil_mode=ceil)
    return mean / share


def _pads(one: Operation, *, kernel: Sequence[int], strides: Sequence[int]) -> list[tuple[int, int]]:
    """Before and behind each axis that a kernel moves along."""
    kind, rank = one.text("pad_type", "valid"), len(kernel)
    if kind == "valid":
        return [(0, 0)] * rank
    if kind == "custom":
        numbers = one.integers("pad", [0] * (2 * rank))
        return list(zip(numbers[::2], numbers[1::2], strict=True))
    pairs = []
    for length, reach, stride in zip(one.x.shape[2:], kernel, strides, strict=True):
        total = max((math.ceil(length / stride) - 1) * stride + reach - length, 0)
        pairs.append((total // 2, total - total // 2) if kind == "same" else (total - total // 2, total // 2))
    return pairs


def _flatten(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """As PyTorch wants pads: the last axis first."""
    return [length for pair in reversed(pairs) for length in pair]


def _matmul(one: Operation) -> Tensor:
    x, y = one.x, one.tensor("y")
    x = x.transpose(-1, -2) if one.flag("transpose_x") else x
    return x @ (y.transpose(-1, -2) if one.flag("transpose_y") else y)


def _einsum(one: Operation) -> Tensor:
    return torch.einsum(one.text("equation", ""), *one.tensors("values"))


def _batch_norm(one: Operation) -> Tensor:
    return f.batch_norm(
        one.x,
        one.tensor("mean"),
        one.tensor("variance"),
        one.optional("gamma"),
        one.optional("beta"),
        eps=one.number("epsilon", 1e-5),
    )


def _instance_norm(one: Operation) -> Tensor:
    return f.instance_norm(
        one.x, weight=one.optional("gamma"), bias=one.optional("beta"), eps=one.number("epsilon", 1e-5)
    )


def _layer_norm(one: Operation) -> Tensor:
    axes = [axis % one.x.ndim for axis in one.integers("axes", list(range(one.x.ndim)))]
    if axes != list(range(axes[0], one.x.ndim)):
        raise one.refuse(f"axes {axes} aren't the last ones")
    shape = one.x.shape[axes[0] :]
    return f.layer_norm(one.x, shape, one.optional("gamma"), one.optional("beta"), eps=one.number("epsilon", 1e-5))


def _l2_norm(one: Operation) -> Tensor:
    axes = list(range(one.x.ndim - 3, one.x.ndim))
    return one.x / torch.sqrt(one.x.square().sum(axes, keepdim=True) + one.number("epsilon", 1e-6))


def _local_response_norm(one: Operation) -> Tensor:
    return f.local_response_norm(
        one.x, one.integer("size"), one.number("alpha", 1e-4), one.number("beta", 0.75), one.number("k", 1.0)
    )


def _upsample(one: Operation) -> Tensor:
    factors = [one.number("scale_factor_height", 1.0), one.number("scale_factor_width", 1.0)]
    size = [math.floor(length * factor) for length, factor in zip(one.x.shape[-2:], factors, strict=True)]
    if one.operator == "upsample_nearest_neighbor":
        return f.interpolate(one.x, size=size, mode="nearest")
    is_aligned = one.flag("align_corners", True)
    if one.flag("half_pixel_centers", not is_aligned) == is_aligned:
        raise one.refuse(f"align_corners and half_pixel_centers both {is_aligned} isn't supported")
    return f.interpolate(one.x, size=size, mode="bilinear", align_corners=is_aligned)


def _resize(one: Operation) -> Tensor:
    size = [one.integer("target_size_height", 1), one.integer("target_size_width", 1)]
    if one.operator == "resize_nearest_neighbor":
        return f.interpolate(one.x, size=size, mode="nearest")
    mode = one.text("sampling_mode", "DEFAULT")
    if mode not in SAMPLING_MODES:
        raise one.refuse(f"sampling_mode {mode} isn't supported")
    return f.interpolate(one.x, size=size, mode="bilinear", align_corners=SAMPLING_MODES[mode])


SAMPLING_MODES: Mapping[str, bool] = {"STRICT_ALIGN_CORNERS": True, "UNALIGN_CORNERS": False}
"""Whether the corners of both pictures lie on one another."""

LAYERS: Mapping[str, Operator] = {
    "avg_pool": _avg_pool,
    "batch_norm": _batch_norm,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "einsum": _einsum,
    "instance_norm": _instance_norm,
    "l2_norm": _l2_norm,
    "layer_norm": _layer_norm,
    "linear": lambda one: f.linear(one.x, one.tensor("weight"), one.optional("bias")),
    "local_response_norm": _local_response_norm,
    "matmul": _matmul,
    "max_pool": _max_pool,
    "resize_bilinear": _resize,
    "resize_nearest_neighbor": _resize,
    "upsample_bilinear": _upsample,
    "upsample_nearest_neighbor": _upsample,
}
"""By operator."""
