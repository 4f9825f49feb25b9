"""What are the bytes of a small ONNX model?

Written by hand after the Protocol Buffers wire format (protobuf.dev, "Encoding") and the field numbers in
onnx/onnx.proto, so that the tests need no `onnx` package.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FLOAT, INT8, INT64 = 1, 3, 7  # TensorProto.DataType
IR_VERSION = 8
OPSET_VERSION = 13


def add_model(*, shape: Sequence[int | str] = ("batch", 3)) -> bytes:
    """`sum = left + right` in float32. A text in `shape` is a length that varies."""
    return _model(
        nodes=[_node("Add", inputs=["left", "right"], outputs=["sum"])],
        inputs=[_value("left", shape), _value("right", shape)],
        outputs=[_value("sum", shape)],
    )


def matmul_chain_model(*, size: int, length: int) -> bytes:
    """`y = x · W · W · …` in float32 with [size, size] matrices and a W of zeros: as slow as `length` says."""
    names = ["x", *(f"h{index}" for index in range(1, length)), "y"]
    return _model(
        nodes=[_node("MatMul", inputs=[names[i], "W"], outputs=[names[i + 1]]) for i in range(length)],
        inputs=[_value("x", (size, size))],
        outputs=[_value("y", (size, size))],
        constants=[_constant("W", np.zeros((size, size), np.float32))],
    )


def unary_model(operator: str, *, shape: Sequence[int | str], outputs: Sequence[str]) -> bytes:
    """Each output is `operator` (Relu, Neg, …) of `x` in float32."""
    return _model(
        nodes=[_node(operator, inputs=["x"], outputs=[name]) for name in outputs],
        inputs=[_value("x", shape)],
        outputs=[_value(name, shape) for name in outputs],
    )


def gain_model(gain: float, *, shape: Sequence[int], outputs: Sequence[str]) -> bytes:
    """Each output is `x` times `gain`, in float32."""
    return _model(
        nodes=[_node("Mul", inputs=["x", "gain"], outputs=[name]) for name in outputs],
        inputs=[_value("x", shape)],
        outputs=[_value(name, shape) for name in outputs],
        constants=[_constant("gain", np.array([gain], np.float32))],
    )


def int8_model(*, shape: Sequence[int], outputs: Sequence[str]) -> bytes:
    """Each output is `x` itself, in int8."""
    return _model(
        nodes=[_node("Identity", inputs=["x"], outputs=[name]) for name in outputs],
        inputs=[_value("x", shape, kind=INT8)],
        outputs=[_value(name, shape, kind=INT8) for name in outputs],
    )


def posterior_chain_model(*, frames: int, width: int, length: int) -> bytes:
    """`x` [1, frames, 1] to `onsets` and `notes`, both [1, frames, 2] and 0: as slow as `width` and `length` say.

    Between them are `length` products with one [width, width] matrix.
    """
    names = [f"h{index}" for index in range(length + 1)]
    widths = {"first": (1, width), "W": (width, width), "last": (width, 2)}
    return _model(
        nodes=[
            _node("MatMul", inputs=["x", "first"], outputs=[names[0]]),
            *(_node("MatMul", inputs=[names[i], "W"], outputs=[names[i + 1]]) for i in range(length)),
            *(_node("MatMul", inputs=[names[-1], "last"], outputs=[output]) for output in ("onsets", "notes")),
        ],
        inputs=[_value("x", (1, frames, 1))],
        outputs=[_value("onsets", (1, frames, 2)), _value("notes", (1, frames, 2))],
        constants=[_constant(name, np.zeros(shape, np.float32)) for name, shape in widths.items()],
    )


def listening_model(*, samples: int) -> bytes:
    """`state_after = state + sum of x` and `score = sigmoid(gain * state_after)`, of `x` [1, samples]; both [1, 1]."""
    return _model(
        nodes=[
            _node("MatMul", inputs=["x", "ones"], outputs=["heard"]),
            _node("Add", inputs=["state", "heard"], outputs=["state_after"]),
            _node("Mul", inputs=["state_after", "gain"], outputs=["raised"]),
            _node("Sigmoid", inputs=["raised"], outputs=["score"]),
        ],
        inputs=[_value("x", (1, samples)), _value("state", (1, 1)), _value("gain", ())],
        outputs=[_value("score", (1, 1)), _value("state_after", (1, 1))],
        constants=[_constant("ones", np.ones((samples, 1), np.float32))],
    )


def next_token_model(table: npt.NDArray[np.float32]) -> bytes:
    """A language model that looks only at the last token: `logits` [1, n, v] are the rows of a table [v, v]."""
    return _model(
        nodes=[_node("Gather", inputs=["table", "ids"], outputs=["logits"])],
        inputs=[_value("ids", (1, "n"), kind=INT64)],
        outputs=[_value("logits", (1, "n", len(table)))],
        constants=[_constant("table", table)],
    )


def external_weight_model(*, location: str) -> bytes:
    """`y = x + W` where W's three values are to be read from the file `location`."""
    weight = _external_tensor(location)
    return _model(
        nodes=[_node("Add", inputs=["x", "W"], outputs=["y"])],
        inputs=[_value("x", (3,))],
        outputs=[_value("y", (3,))],
        constants=[weight],
    )


def in_constant_of_branch(*, location: str) -> bytes:
    """An `If` whose branch is a `Constant` with values in the file `location`."""
    value = _text(1, "value") + _bytes(5, _external_tensor(location)) + _number(20, 4)
    constant = _node("Constant", inputs=[], outputs=["y"]) + _bytes(5, value)
    branch = _text(1, "then_branch") + _bytes(6, _bytes(1, constant) + _text(2, "then")) + _number(20, 5)
    choice = _node("If", inputs=["x"], outputs=["y"]) + _bytes(5, branch)
    return _model(nodes=[choice], inputs=[_value("x", (1,))], outputs=[_value("y", (3,))])


def _external_tensor(location: str) -> bytes:
    entry = _text(1, "location") + _text(2, location)
    return _number(1, 3) + _number(2, FLOAT) + _text(8, "W") + _bytes(13, entry) + _number(14, 1)


def _model(
    *, nodes: Sequence[bytes], inputs: Sequence[bytes], outputs: Sequence[bytes], constants: Sequence[bytes] = ()
) -> bytes:
    graph = b"".join(_bytes(1, node) for node in nodes) + _text(2, "graph")
    graph += b"".join(_bytes(5, constant) for constant in constants)
    graph += b"".join(_bytes(11, value) for value in inputs) + b"".join(_bytes(12, value) for value in outputs)
    return _number(1, IR_VERSION) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, OPSET_VERSION))


def _node(operator: str, *, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    names = b"".join(_text(1, name) for name in inputs) + b"".join(_text(2, name) for name in outputs)
    return names + _text(4, operator)


def _value(name: str, shape: Sequence[int | str], *, kind: int = FLOAT) -> bytes:
    lengths = (_text(2, length) if isinstance(length, str) else _number(1, length) for length in shape)
    tensor_type = _number(1, kind) + _bytes(2, b"".join(_bytes(1, length) for length in lengths))
    return _text(1, name) + _bytes(2, _bytes(1, tensor_type))


def _constant(name: str, values: npt.NDArray[np.float32]) -> bytes:
    lengths = b"".join(_number(1, length) for length in values.shape)
    return lengths + _number(2, FLOAT) + _text(8, name) + _bytes(9, values.astype("<f4").tobytes())


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
