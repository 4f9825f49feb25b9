"""How do ONNX's operators that move, join, pick or reduce numbers do it, in PyTorch?"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as f
from torch import Tensor

from shoal_converters.paths.onnx_in_torch.elementwise import Operator
from shoal_converters.paths.onnx_in_torch.node import Node

PAD_MODES: Mapping[bytes, Any] = {b"reflect": "reflect", b"edge": "edge", b"wrap": "wrap"}
"""Those that repeat numbers, by NumPy's names."""


def _reshape(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    wanted = [int(length) for length in node.constant(1)]
    if not node.get("allowzero", 0):
        wanted = [x.shape[axis] if length == 0 else length for axis, length in enumerate(wanted)]
    return x.reshape(wanted)


def _flatten(node: Node, x: Tensor) -> Tensor:
    axis = node.get("axis", 1) % (x.ndim + 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


def _transpose(node: Node, x: Tensor) -> Tensor:
    return x.permute(node.get("perm") or tuple(reversed(range(x.ndim))))


def _squeeze(node: Node, x: Tensor, *axes: Tensor) -> Tensor:
    chosen = node.numbers(1, "axes")
    return x.squeeze() if chosen is None else x.squeeze(tuple(chosen))


def _unsqueeze(node: Node, x: Tensor, *axes: Tensor) -> Tensor:
    chosen = node.numbers(1, "axes") or []
    rank = x.ndim + len(chosen)
    for axis in sorted(one % rank for one in chosen):
        x = x.unsqueeze(axis)
    return x


def _split(node: Node, x: Tensor, *sizes: Tensor) -> Any:
    axis = node.get("axis", 0)
    lengths = node.numbers(1, "split")
    if lengths is None:
        count = len(node.outputs)
        lengths = [len(part) for part in torch.arange(x.shape[axis]).chunk(count)]
    return torch.split(x, lengths, axis)


def _slice(node: Node, x: Tensor, *ranges: Tensor) -> Tensor:
    starts, ends = node.numbers(1, "starts"), node.numbers(2, "ends")
    assert starts is not None and ends is not None
    axes = node.numbers(3, "axes") or list(range(len(starts)))
    steps = node.numbers(4, "steps") or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        chosen = range(*slice(start, _bound(end, step), step).indices(x.shape[axis]))
        if step > 0:
            axis %= x.ndim
            x = x[(slice(None),) * axis + (slice(chosen.start, max(chosen.stop, chosen.start), step),)]
        else:
            x = x.index_select(axis, torch.tensor(list(chosen), dtype=torch.int64))
    return x


def _bound(end: int, step: int) -> int | None:
    """ONNX has the smallest number for "beyond the first", where Python has None."""
    return None if step < 0 and end < -(1 << 30) else end


def _gather(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.get("axis", 0) % x.ndim
    if 1 in node.constants:
        # Known, so that neither a negative number nor a single one needs an operator of its own.
        known = node.constants[1] % x.shape[axis]
        if known.ndim == 0:
            return x.select(axis, int(known))
        indices = torch.from_numpy(np.ascontiguousarray(known))
    picked = x.index_select(axis, indices.reshape(-1).to(torch.int64))
    return picked.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _gather_elements(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    axis = node.get("axis", 0)
    indices = indices.to(torch.int64)
    return x.gather(axis, torch.where(indices < 0, indices + x.shape[axis], indices))


def _gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    if node.get("batch_dims", 0):
        raise node.refuse("batch_dims isn't supported")
    return x[tuple(indices.to(torch.int64).unbind(-1))]


def _expand(node: Node, x: Tensor, shape: Tensor) -> Tensor:
    return x.broadcast_to(torch.broadcast_shapes(x.shape, tuple(map(int, node.constant(1)))))


def _pad(node: Node, x: Tensor, *others: Tensor) -> Tensor:
    pads = node.numbers(1, "pads") or []
    axes = node.numbers(3, "axes") or list(range(x.ndim))
    by_axis = {axis % x.ndim: (pads[place], pads[place + len(axes)]) for place, axis in enumerate(axes)}
    mode = node.get("mode", b"constant")
    if mode == b"constant":
        flat = [length for axis in reversed(range(x.ndim)) for length in by_axis.get(axis, (0, 0))]
        value = float(np.asarray(node.constant(2)).item()) if node.has(2) else float(node.get("value", 0.0))
        return f.pad(x, flat, value=value)
    if mode not in PAD_MODES:
        raise node.refuse(f"padding {mode!r} isn't supported")
    for axis, lengths in by_axis.items():
        if lengths != (0, 0):
            # Picked: PyTorch's own padding can't do all axes, and LiteRT's converter stumbles over it.
            places = np.pad(np.arange(x.shape[axis]), lengths, mode=PAD_MODES[mode])
            x = x.index_select(axis, torch.from_numpy(places))
    return x


def _depth_to_space(node: Node, x: Tensor) -> Tensor:
    block = node.get("blocksize")
    if node.get("mode", b"DCR") == b"CRD":
        return f.pixel_shuffle(x, block)
    n, c, h, w = x.shape
    parts = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // block**2, h * block, w * block)


def _space_to_depth(node: Node, x: Tensor) -> Tensor:
    block = node.get("blocksize")
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // block, block, w // block, block).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * block**2, h // block, w // block)


def _reduce(node: Node, x: Tensor, *others: Tensor) -> Tensor:
    axes = node.numbers(1, "axes")
    if axes is None:
        if node.get("noop_with_empty_axes", 0):
            return x
        axes = list(range(x.ndim))
    keep = bool(node.get("keepdims", 1))
    compute: Any = REDUCTIONS[node.operator]
    reduced: Tensor = compute(x, axes, keep)
    return reduced


REDUCTIONS: Mapping[str, Any] = {
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keepdim=keep),
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: x.amax(axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: x.amin(axes, keepdim=keep),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: x.square().sum(axes, keepdim=keep).sqrt(),
    "ReduceSumSquare": lambda x, axes, keep: x.square().sum(axes, keepdim=keep),
    "ReduceLogSumExp": lambda x, axes, keep: x.logsumexp(axes, keepdim=keep),
}


def _arg(node: Node, x: Tensor) -> Tensor:
    if node.get("select_last_index", 0):
        raise node.refuse("select_last_index isn't supported")
    find = torch.argmax if node.operator == "ArgMax" else torch.argmin
    return find(x, dim=node.get("axis", 0), keepdim=bool(node.get("keepdims", 1)))


def _top_k(node: Node, x: Tensor, *others: Tensor) -> Any:
    count = (node.numbers(1, "k") or [1])[0]
    return torch.topk(
        x, count, dim=node.get("axis", -1), largest=bool(node.get("largest", 1)), sorted=bool(node.get("sorted", 1))
    )


SHAPES: Mapping[str, Operator] = {
    "ArgMax": _arg,
    "ArgMin": _arg,
    "Concat": lambda node, *inputs: torch.cat(inputs, node.get("axis")),
    "CumSum": lambda node, x, axis: torch.cumsum(x, int(node.constant(1))),
    "DepthToSpace": _depth_to_space,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Pad": _pad,
    **dict.fromkeys(REDUCTIONS, _reduce),
    "Reshape": _reshape,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": lambda node, x, repeats: x.tile(tuple(map(int, node.constant(1)))),
    "TopK": _top_k,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""By operator."""
