"""What do ONNX's recurrent layers compute, in PyTorch? Step by step, as their number is fixed once the file is traced.

So every tool that converts takes them, without an operator for recurrence. Gates are in ONNX's order.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as f
from torch import Tensor

from shoal_converters.paths.onnx_in_torch.elementwise import Operator
from shoal_converters.paths.onnx_in_torch.node import Node

MOST_STEPS = 1024
"""Each is written as operators of its own."""
USUAL: Mapping[str, list[bytes]] = {"LSTM": [b"Sigmoid", b"Tanh", b"Tanh"], "GRU": [b"Sigmoid", b"Tanh"]}
GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3}
UNKNOWN = ("clip", "input_forget", "layout")
BIAS, LENGTHS, HIDDEN, CELL, PEEPHOLES = 3, 4, 5, 6, 7
"""Places of the inputs that may be left out."""


class _Weights(NamedTuple):
    """Of one direction."""

    inputs: Tensor
    """float32[gates, size of an input]"""
    hidden: Tensor
    """float32[gates, size]"""
    input_bias: Tensor
    hidden_bias: Tensor


State = tuple[Tensor, Tensor]
"""Hidden and cell, each float32[batch, size]; a GRU has no cell, and leaves that alone."""
Step = Callable[[Node, Tensor, State, _Weights], State]


def _run(node: Node, x: Tensor, w: Tensor, r: Tensor, *others: Tensor | None) -> tuple[Tensor, ...]:
    """Outputs of all steps, float32[steps, directions, batch, size], and the last states of each direction."""
    given = dict(enumerate(others, start=BIAS))
    _check(node, x, directions=len(w), given=given)
    steps, batch, size = x.shape[0], x.shape[1], r.shape[-1]
    bias = given.get(BIAS)
    if bias is None:
        bias = x.new_zeros(len(w), 2 * GATES[node.operator] * size)
    hidden, cell = given.get(HIDDEN), given.get(CELL)
    hidden = x.new_zeros(len(w), batch, size) if hidden is None else hidden
    cell = x.new_zeros(len(w), batch, size) if cell is None else cell
    all_outputs, last = [], []
    for direction in range(len(w)):
        weights = _Weights(w[direction], r[direction], *bias[direction].chunk(2))
        state: State = (hidden[direction], cell[direction])
        is_backwards = direction == 1 or node.get("direction") == b"reverse"
        outputs = []
        for step in reversed(range(steps)) if is_backwards else range(steps):
            state = STEPS[node.operator](node, x[step], state, weights)
            outputs.append(state[0])
        all_outputs.append(torch.stack(outputs[::-1] if is_backwards else outputs))
        last.append(state)
    return torch.stack(all_outputs, 1), *(torch.stack(states) for states in zip(*last, strict=True))


def _check(node: Node, x: Tensor, *, directions: int, given: Mapping[int, Tensor | None]) -> None:
    if x.shape[0] > MOST_STEPS:
        raise node.refuse(f"{x.shape[0]} steps, at most {MOST_STEPS} are written one by one")
    if any(node.get(name) for name in UNKNOWN):
        raise node.refuse(f"{', '.join(name for name in UNKNOWN if node.get(name))} aren't supported")
    if (node.get("activations") or USUAL[node.operator] * directions) != USUAL[node.operator] * directions:
        raise node.refuse(f"activations {node.get('activations')} aren't supported")
    for place, what in ((LENGTHS, "lengths of sequences"), (PEEPHOLES, "peepholes")):
        if given.get(place) is not None:
            raise node.refuse(f"{what} aren't supported")


def _step_lstm(_: Node, x: Tensor, state: State, weights: _Weights) -> State:
    hidden, cell = state
    sums = f.linear(x, weights.inputs, weights.input_bias) + f.linear(hidden, weights.hidden, weights.hidden_bias)
    write, read, forget, candidate = sums.chunk(4, 1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(candidate)
    return torch.sigmoid(read) * torch.tanh(cell), cell


def _step_gru(node: Node, x: Tensor, state: State, weights: _Weights) -> State:
    hidden, cell = state
    keep, reset, candidate = f.linear(x, weights.inputs, weights.input_bias).chunk(3, 1)
    gates, last = weights.hidden.split([2 * hidden.shape[1], hidden.shape[1]])
    gate_bias, last_bias = weights.hidden_bias.split([2 * hidden.shape[1], hidden.shape[1]])
    more = f.linear(hidden, gates, gate_bias).chunk(2, 1)
    keep, reset = torch.sigmoid(keep + more[0]), torch.sigmoid(reset + more[1])
    if node.get("linear_before_reset", 0):
        candidate = torch.tanh(candidate + reset * f.linear(hidden, last, last_bias))
    else:
        candidate = torch.tanh(candidate + f.linear(reset * hidden, last, last_bias))
    return (1 - keep) * candidate + keep * hidden, cell


STEPS: Mapping[str, Step] = {"LSTM": _step_lstm, "GRU": _step_gru}

RECURRENT: Mapping[str, Operator] = dict.fromkeys(STEPS, _run)
"""By operator."""
