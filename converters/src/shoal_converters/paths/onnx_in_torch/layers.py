"""What do ONNX's operators that are layers of networks compute, in PyTorch: convolutions, pools, norms, resizing?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as f
from numpy.typing import NDArray
from torch import Tensor

from shoal_converters.paths.onnx_in_torch.elementwise import Operator
from shoal_converters.paths.onnx_in_torch.node import Node

CONVOLUTIONS: Mapping[int, Any] = {1: f.conv1d, 2: f.conv2d, 3: f.conv3d}
TRANSPOSED: Mapping[int, Any] = {1: f.conv_transpose1d, 2: f.conv_transpose2d, 3: f.conv_transpose3d}
MAX_POOLS: Mapping[int, Any] = {1: f.max_pool1d, 2: f.max_pool2d, 3: f.max_pool3d}
AVERAGE_POOLS: Mapping[int, Any] = {1: f.avg_pool1d, 2: f.avg_pool2d, 3: f.avg_pool3d}
SAME = (b"SAME_UPPER", b"SAME_LOWER")


def _conv(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.ndim - 2
    strides, dilations = _spread(node, "strides", rank), _spread(node, "dilations", rank)
    kernel = [(length - 1) * by + 1 for length, by in zip(weight.shape[2:], dilations, strict=True)]
    begins, ends = _pads(node, x.shape[2:], kernel=kernel, strides=strides)
    if begins != ends:
        x, begins = f.pad(x, _flat(begins, ends)), [0] * rank
    out: Tensor = CONVOLUTIONS[rank](x, weight, bias, strides, begins, dilations, node.get("group", 1))
    return out


def _conv_transpose(node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.ndim - 2
    if node.get("auto_pad", b"NOTSET") != b"NOTSET" or node.get("output_shape"):
        raise node.refuse("its padding must be given as pads")
    pads = node.get("pads") or [0] * (2 * rank)
    begins, ends = list(pads[:rank]), list(pads[rank:])
    more = list(node.get("output_padding") or [0] * rank)
    strides, dilations = _spread(node, "strides", rank), _spread(node, "dilations", rank)
    # What PyTorch cuts off at both ends and then adds at the end, ONNX cuts off at each.
    extra = [begin - end + added for begin, end, added in zip(begins, ends, more, strict=True)]
    if min(extra) < 0:
        raise node.refuse(f"pads {list(pads)} aren't supported")
    out: Tensor = TRANSPOSED[rank](x, weight, bias, strides, begins, extra, node.get("group", 1), dilations)
    return out


def _max_pool(node: Node, x: Tensor) -> Tensor:
    rank = x.ndim - 2
    kernel, strides, dilations = (
        node.get("kernel_shape"),
        _spread(node, "strides", rank),
        _spread(node, "dilations", rank),
    )
    reach = [(length - 1) * by + 1 for length, by in zip(kernel, dilations, strict=True)]
    begins, ends = _pads(node, x.shape[2:], kernel=reach, strides=strides)
    if begins != ends or any(2 * pad > length for pad, length in zip(begins, kernel, strict=True)):
        x, begins = f.pad(x, _flat(begins, ends), value=-math.inf), [0] * rank
    out: Tensor = MAX_POOLS[rank](x, kernel, strides, begins, dilations, ceil_mode=bool(node.get("ceil_mode", 0)))
    return out


def _average_pool(node: Node, x: Tensor) -> Tensor:
    rank = x.ndim - 2
    kernel, strides = node.get("kernel_shape"), _spread(node, "strides", rank)
    if max(_spread(node, "dilations", rank)) > 1:
        raise node.refuse("dilations aren't supported")
    begins, ends = _pads(node, x.shape[2:], kernel=kernel, strides=strides)
    pool, ceil = AVERAGE_POOLS[rank], bool(node.get("ceil_mode", 0))
    counts_pads = bool(node.get("count_include_pad", 0))
    if begins == ends and all(2 * pad <= length for pad, length in zip(begins, kernel, strict=True)):
        even: Tensor = pool(x, kernel, strides, begins, ceil_mode=ceil, count_include_pad=counts_pads)
        return even
    flat = _flat(begins, ends)
    summed: Tensor = pool(f.pad(x, flat), kernel, strides, ceil_mode=ceil)
    if counts_pads:
        return summed
    share: Tensor = pool(f.pad(torch.ones(1, 1, *x.shape[2:]), flat), kernel, strides, ceil_mode=ceil)
    return summed / share


def _spread(node: Node, name: str, rank: int) -> list[int]:
    return list(node.get(name) or [1] * rank)


def _pads(
    node: Node, lengths: Sequence[int], *, kernel: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Before and behind each axis."""
    kind, rank = node.get("auto_pad", b"NOTSET"), len(lengths)
    if kind not in SAME:
        pads = (node.get("pads") if kind == b"NOTSET" else None) or [0] * (2 * rank)
        return list(pads[:rank]), list(pads[rank:])
    begins, ends = [], []
    for length, reach, stride in zip(lengths, kernel, strides, strict=True):
        total = max((math.ceil(length / stride) - 1) * stride + reach - length, 0)
        smaller, larger = total // 2, total - total // 2
        begins.append(smaller if kind == b"SAME_UPPER" else larger)
        ends.append(larger if kind == b"SAME_UPPER" else smaller)
    return begins, ends


def _flat(begins: Sequence[int], ends: Sequence[int]) -> list[int]:
    """As PyTorch wants pads: the last axis first."""
    pairs = list(zip(begins, ends, strict=True))
    return [length for pair in reversed(pairs) for length in pair]


def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.T if node.get("transA", 0) else a
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    if node.get("transB", 0) and alpha == beta == 1.0 and (c is None or c.ndim == 1):
        return f.linear(a, b, c)
    product = alpha * (a @ (b.T if node.get("transB", 0) else b))
    return product if c is None else product + beta * c


def _batch_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    return f.batch_norm(x, mean, variance, scale, bias, eps=node.get("epsilon", 1e-5))


def _layer_norm(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    axis = node.get("axis", -1) % x.ndim
    shape = x.shape[axis:]
    return f.layer_norm(x, shape, scale.expand(shape), bias, eps=node.get("epsilon", 1e-5))


def _local_response_norm(node: Node, x: Tensor) -> Tensor:
    return f.local_response_norm(
        x, node.get("size"), node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    )


def _resize(node: Node, x: Tensor, *others: Tensor | None) -> Tensor:
    lengths, scales = _choose_lengths(node, x)
    mode = node.get("mode", b"nearest")
    default = b"half_pixel" if node.operator == "Resize" and node.opset > 10 else b"asymmetric"
    how = node.get("coordinate_transformation_mode", default)
    is_picture = x.ndim == 4 and lengths[:2] == list(x.shape[:2])
    if is_picture and mode == b"linear" and how in (b"half_pixel", b"pytorch_half_pixel", b"align_corners"):
        return f.interpolate(x, size=lengths[2:], mode="bilinear", align_corners=how == b"align_corners")
    if is_picture and mode == b"nearest" and _repeats(node, x, lengths, scales, how=how):
        return f.interpolate(x, size=lengths[2:], mode="nearest")
    for axis, (out, scale) in enumerate(zip(lengths, scales, strict=True)):
        if out != x.shape[axis]:
            x = _resize_axis(node, x, axis=axis, out=out, scale=scale, how=how, mode=mode)
    return x


def _choose_lengths(node: Node, x: Tensor) -> tuple[list[int], list[float]]:
    place = 1 if node.operator == "Upsample" or node.opset < 11 else 2
    if node.get("axes"):
        raise node.refuse("axes aren't supported")
    if node.has(3) and node.constant(3).size:
        lengths = [int(length) for length in node.constant(3)]
        return lengths, [out / length for out, length in zip(lengths, x.shape, strict=True)]
    scales = [float(scale) for scale in (node.constant(place) if node.has(place) else node.get("scales"))]
    return [math.floor(length * scale) for length, scale in zip(x.shape, scales, strict=True)], scales


def _repeats(node: Node, x: Tensor, lengths: Sequence[int], scales: Sequence[float], *, how: bytes) -> bool:
    """Whether each number is only repeated as often as the others of its axis, which every tool has an operator for."""
    for length, out, scale in zip(x.shape[2:], lengths[2:], scales[2:], strict=True):
        if out % length:
            return False
        chosen = _choose_nearest(
            node, _find_places(node, out=out, length=length, scale=scale, how=how), last=length - 1
        )
        if (chosen != np.arange(out) // (out // length)).any():
            return False
    return True


def _resize_axis(node: Node, x: Tensor, *, axis: int, out: int, scale: float, how: bytes, mode: bytes) -> Tensor:
    """Any of ONNX's ways, by picking: each place of the result lies somewhere between places of `x`."""
    last = x.shape[axis] - 1
    places = _find_places(node, out=out, length=x.shape[axis], scale=scale, how=how)
    if mode == b"nearest":
        return x.index_select(axis, torch.from_numpy(_choose_nearest(node, places, last=last)))
    if mode != b"linear":
        raise node.refuse(f"mode {mode!r} isn't supported")
    places = np.clip(places, 0, last)
    low = np.floor(places).astype(np.int64)
    weight = torch.from_numpy((places - low).astype(np.float32)).reshape(-1, *[1] * (x.ndim - 1 - axis))
    below = x.index_select(axis, torch.from_numpy(low))
    above = x.index_select(axis, torch.from_numpy(np.minimum(low + 1, last)))
    return below * (1 - weight) + above * weight


def _find_places(node: Node, *, out: int, length: int, scale: float, how: bytes) -> NDArray[np.float64]:
    """Where each of `out` places of a result lies among the `length` of an axis."""
    places = np.arange(out, dtype=np.float64)
    if how == b"asymmetric":
        return places / scale
    if how == b"align_corners":
        return places * ((length - 1) / max(out - 1, 1))
    if how == b"pytorch_half_pixel" and out == 1:
        return np.zeros(1)
    if how in (b"half_pixel", b"pytorch_half_pixel"):
        return (places + 0.5) / scale - 0.5
    raise node.refuse(f"coordinate_transformation_mode {how!r} isn't supported")


def _choose_nearest(node: Node, places: NDArray[np.float64], *, last: int) -> NDArray[np.int64]:
    # Before opset 11 there was no choice.
    mode = b"floor" if node.opset < 11 else node.get("nearest_mode", b"round_prefer_floor")
    chosen: NDArray[np.float64] = ROUNDINGS[mode](places)
    return np.clip(chosen, 0, last).astype(np.int64)


ROUNDINGS: Mapping[bytes, Any] = {
    b"floor": np.floor,
    b"ceil": np.ceil,
    b"round_prefer_floor": lambda places: np.ceil(places - 0.5),
    b"round_prefer_ceil": lambda places: np.floor(places + 0.5),
}


def _global_pool(node: Node, x: Tensor) -> Tensor:
    axes = tuple(range(2, x.ndim))
    return x.mean(axes, keepdim=True) if node.operator == "GlobalAveragePool" else x.amax(axes, keepdim=True)


LAYERS: Mapping[str, Operator] = {
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": lambda node, *inputs: torch.einsum(node.get("equation").decode(), *inputs),
    "Gemm": _gemm,
    "GlobalAveragePool": _global_pool,
    "GlobalMaxPool": _global_pool,
    "InstanceNormalization": lambda node, x, scale, bias: f.instance_norm(
        x, weight=scale, bias=bias, eps=node.get("epsilon", 1e-5)
    ),
    "LRN": _local_response_norm,
    "LayerNormalization": _layer_norm,
    "MatMul": lambda node, a, b: torch.matmul(a, b),
    "MaxPool": _max_pool,
    "Resize": _resize,
    "Upsample": _resize,
}
"""By operator."""
