"""How do Core ML's operators that move, join, pick or reduce numbers do it, and those that unpack small weights?"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as f
from torch import Tensor

from shoal_converters.paths.coreml_in_torch.elementwise import Operator
from shoal_converters.paths.coreml_in_torch.operation import Operation

PAD_MODES = {"reflect": "reflect", "replicate": "replicate"}
BITS_IN_BYTE = 8


def _reshape(one: Operation) -> Tensor:
    shape = [one.x.shape[axis] if length == 0 else length for axis, length in enumerate(one.integers("shape"))]
    return one.x.reshape(shape)


def _squeeze(one: Operation) -> Tensor:
    return one.x.squeeze(tuple(one.integers("axes"))) if one.has("axes") else one.x.squeeze()


def _expand_dims(one: Operation) -> Tensor:
    axes = one.integers("axes")
    rank, x = one.x.ndim + len(axes), one.x
    for axis in sorted(number % rank for number in axes):
        x = x.unsqueeze(axis)
    return x


def _concat(one: Operation) -> Tensor:
    if one.flag("interleave"):
        raise one.refuse("interleave isn't supported")
    return torch.cat(one.tensors("values"), one.integer("axis"))


def _crop(one: Operation) -> Tensor:
    top, bottom = one.integers("crop_height")
    left, right = one.integers("crop_width")
    return one.x[..., top : one.x.shape[-2] - bottom, left : one.x.shape[-1] - right]


def _split(one: Operation) -> Any:
    axis = one.integer("axis")
    if one.has("split_sizes"):
        return torch.split(one.x, one.integers("split_sizes"), axis)
    return torch.split(one.x, one.x.shape[axis] // one.integer("num_splits"), axis)


def _slice_by_index(one: Operation) -> Tensor:
    x, begins, ends = one.x, one.integers("begin"), one.integers("end")
    rank = len(begins)
    strides = one.integers("stride", [1] * rank)
    from_first, to_last, single = (
        one.integers(name, [0] * rank) for name in ("begin_mask", "end_mask", "squeeze_mask")
    )
    for axis in range(rank):
        begin = None if from_first[axis] else begins[axis]
        end = None if to_last[axis] else ends[axis]
        if single[axis]:
            begin, end = begins[axis], begins[axis] + 1 or None
        places = range(*slice(begin, end, strides[axis]).indices(x.shape[axis]))
        if list(places) != list(range(x.shape[axis])):
            x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))
    gone = tuple(axis for axis in range(rank) if single[axis])
    return x.squeeze(gone) if gone else x


def _slice_by_size(one: Operation) -> Tensor:
    x = one.x
    for axis, (begin, size) in enumerate(zip(one.integers("begin"), one.integers("size"), strict=True)):
        x = x.narrow(axis, begin, x.shape[axis] - begin if size < 0 else size)
    return x


def _gather(one: Operation) -> Tensor:
    if one.integer("batch_dims", 0):
        raise one.refuse("batch_dims isn't supported")
    x, indices, axis = one.x, one.tensor("indices"), one.integer("axis", 0) % one.x.ndim
    picked = x.index_select(axis, indices.reshape(-1) % x.shape[axis])
    return picked.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _gather_along_axis(one: Operation) -> Tensor:
    axis = one.integer("axis", 0)
    return one.x.gather(axis, one.tensor("indices") % one.x.shape[axis])


def _gather_nd(one: Operation) -> Tensor:
    if one.integer("batch_dims", 0):
        raise one.refuse("batch_dims isn't supported")
    return one.x[tuple(one.tensor("indices").unbind(-1))]


def _pad(one: Operation) -> Tensor:
    pads, mode = one.integers("pad"), one.text("mode", "constant")
    pairs = list(zip(pads[::2], pads[1::2], strict=True))  # of the last axes, the last one last
    if mode == "constant":
        flat = [length for pair in reversed(pairs) for length in pair]
        return f.pad(one.x, flat, value=one.number("constant_val", 0.0))
    while pairs and pairs[0] == (0, 0):
        pairs = pairs[1:]
    if mode not in PAD_MODES or len(pairs) > one.x.ndim - 1:
        raise one.refuse(f"padding {mode} by {pads} isn't supported")
    rank = len(pairs) + 2  # which PyTorch wants, whatever is in front
    x = one.x.reshape(-1, *one.x.shape[one.x.ndim - rank + 1 :])
    padded = f.pad(x, [length for pair in reversed(pairs) for length in pair], mode=PAD_MODES[mode])
    return padded.reshape(*one.x.shape[: one.x.ndim - rank + 1], *padded.shape[1:])


def _depth_to_space(one: Operation) -> Tensor:
    n, c, h, w = one.x.shape
    b = one.integer("block_size")
    return one.x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, c // b**2, h * b, w * b)


def _space_to_depth(one: Operation) -> Tensor:
    n, c, h, w = one.x.shape
    b = one.integer("block_size")
    return one.x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b**2, h // b, w // b)


def _reduce(function: Callable[[Tensor, list[int], bool], Tensor]) -> Operator:
    def compute(one: Operation) -> Tensor:
        axes = one.integers("axes", list(range(one.x.ndim)))
        return function(one.x, axes, one.flag("keep_dims"))

    return compute


def _find(function: Callable[..., Tensor]) -> Operator:
    return lambda one: function(one.x, dim=one.integer("axis", -1), keepdim=one.flag("keep_dims"))


def _top_k(one: Operation) -> tuple[Tensor, ...]:
    values, indices = torch.topk(
        one.x, one.integer("k", 1), dim=one.integer("axis", -1), largest=not one.flag("ascending")
    )
    return values, indices


def _cumulate(one: Operation) -> Tensor:
    if one.flag("exclusive") or one.flag("reverse"):
        raise one.refuse("exclusive and reverse aren't supported")
    return torch.cumsum(one.x, one.integer("axis", 0))


def _range(one: Operation) -> Tensor:
    return torch.arange(one.number("start"), one.number("end"), one.number("step")).to(one.tensor("start").dtype)


def _dequantize(one: Operation) -> Tensor:
    """Weights of 8 bits: (q - zero point) * scale, along one axis."""
    quantized, axis = one.tensor("quantized_data"), one.integer("axis")
    shape = [-1 if place == axis else 1 for place in range(quantized.ndim)]
    zero_point, scale = one.tensor("zero_point"), one.tensor("scale")
    if zero_point.ndim:
        zero_point = zero_point.reshape(shape)
    if scale.ndim:
        scale = scale.reshape(shape)
    return (quantized - zero_point).to(torch.float32) * scale


def _look_up(one: Operation) -> Tensor:
    """Weights out of a palette: numbers of as many bits as it needs, the lowest bits of a byte first."""
    palette, shape = one.tensor("lut"), one.integers("shape")
    bits = max(1, (palette.numel() - 1).bit_length())
    packed = one.tensor("indices").reshape(-1, 1)
    flat = (packed >> torch.arange(BITS_IN_BYTE)) & 1
    count = int(torch.tensor(shape).prod())
    numbers = flat.reshape(-1)[: count * bits].reshape(count, bits)
    indices = (numbers << torch.arange(bits)).sum(1)
    return palette.reshape(-1)[indices].reshape(shape)


SHAPES: Mapping[str, Operator] = {
    "concat": _concat,
    "constexpr_affine_dequantize": _dequantize,
    "constexpr_cast": lambda one: one.tensor("source_val"),
    "constexpr_lut_to_dense": _look_up,
    "crop": _crop,
    "cumsum": _cumulate,
    "depth_to_space": _depth_to_space,
    "expand_dims": _expand_dims,
    "fill": lambda one: torch.full(one.integers("shape"), one.number("value", 0.0)),
    "gather": _gather,
    "gather_along_axis": _gather_along_axis,
    "gather_nd": _gather_nd,
    "pad": _pad,
    "pixel_shuffle": lambda one: f.pixel_shuffle(one.x, one.integer("upscale_factor")),
    "range_1d": _range,
    "reduce_argmax": _find(torch.argmax),
    "reduce_argmin": _find(torch.argmin),
    "reduce_l1_norm": _reduce(lambda x, axes, keep: x.abs().sum(axes, keepdim=keep)),
    "reduce_l2_norm": _reduce(lambda x, axes, keep: x.square().sum(axes, keepdim=keep).sqrt()),
    "reduce_log_sum_exp": _reduce(lambda x, axes, keep: x.logsumexp(axes, keepdim=keep)),
    "reduce_max": _reduce(lambda x, axes, keep: x.amax(axes, keepdim=keep)),
    "reduce_mean": _reduce(lambda x, axes, keep: x.mean(axes, keepdim=keep)),
    "reduce_min": _reduce(lambda x, axes, keep: x.amin(axes, keepdim=keep)),
    "reduce_sum": _reduce(lambda x, axes, keep: x.sum(axes, keepdim=keep)),
    "reduce_sum_square": _reduce(lambda x, axes, keep: x.square().sum(axes, keepdim=keep)),
    "reshape": _reshape,
    "reverse": lambda one: one.x.flip(one.integers("axes", list(range(one.x.ndim)))),
    "shape": lambda one: torch.tensor(one.x.shape),
    "slice_by_index": _slice_by_index,
    "slice_by_size": _slice_by_size,
    "space_to_depth": _space_to_depth,
    "split": _split,
    "squeeze": _squeeze,
    "stack": lambda one: torch.stack(one.tensors("values"), one.integer("axis")),
    "tile": lambda one: one.x.tile(tuple(one.integers("reps"))),
    "topk": _top_k,
    "transpose": lambda one: one.x.permute(one.integers("perm")),
}
"""By operator."""
