"""What are the bytes of a small TFLite model?

Written with the classes that LiteRT generates from its own schema, so not by what is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

Float = npt.NDArray[np.float32]


def add_model(*, shape: Sequence[int] = (1, 3), signature: Sequence[int] | None = None) -> bytes:
    """`sum = left + right` in float32. A length of -1 in `signature` varies."""
    tensors = [_tensor(name, shape, signature=signature) for name in ("left", "right", "sum")]
    return _file(tensors, operator=_operator(schema.BuiltinOperator.ADD, "Add"), inputs=[0, 1], given=[0, 1])


def matmul_model(*, size: int, repeats: int, rows: int = 1) -> bytes:
    """`y = x · W · W · …` in float32 with x of [rows, size] and a square W of zeros: as slow as the numbers say."""
    weights = np.zeros((size, size), np.float32)
    tensors = [_tensor("x", (rows, size)), _tensor("W", (size, size), buffer=1)]
    tensors += [_tensor(f"h{index}", (rows, size)) for index in range(repeats)]
    layer = _operator(schema.BuiltinOperator.FULLY_CONNECTED, "FullyConnected")
    steps = [([0 if index == 0 else index + 1, 1, -1], [index + 2]) for index in range(repeats)]
    return _pack(tensors, operator=layer, steps=steps, given=[0], wanted=[repeats + 1], buffers=[weights.tobytes()])


def hybrid_model(weights: Float, *, is_per_channel: bool, version: int = 5, operator: str = "FULLY_CONNECTED") -> bytes:
    """`y = x · weightsᵀ` with float32 inputs and INT8 weights, quantized symmetrically."""
    largest = np.abs(weights).max(axis=1, keepdims=True) if is_per_channel else np.abs(weights).max(keepdims=True)
    scales = largest / 127
    whole = np.clip(np.round(weights / scales), -127, 127).astype(np.int8)
    outputs, inputs = weights.shape
    quantization = schema.QuantizationParametersT()
    quantization.scale = scales.ravel().tolist()
    quantization.zeroPoint = [0] * scales.size
    stored = _tensor("weights", weights.shape, kind=schema.TensorType.INT8, buffer=1)
    stored.quantization = quantization
    tensors = [_tensor("x", (1, inputs)), stored, _tensor("y", (1, outputs))]
    layer = _operator(getattr(schema.BuiltinOperator, operator), "FullyConnected", version=version)
    steps = [([0, 1, -1], [2])]
    return _pack(tensors, operator=layer, steps=steps, given=[0], wanted=[2], buffers=[whole.tobytes()])


def without_buffers(model: bytes) -> bytes:
    """The model with its list of buffers moved to where there is nothing."""
    table = schema.Model.GetRootAs(model)._tab
    place = table.Pos + table.Offset(12)  # "buffers", the fifth field
    return model[:place] + (0x7FFFFFF0).to_bytes(4, "little") + model[place + 4 :]


def _tensor(
    name: str,
    shape: Sequence[int],
    *,
    kind: int = schema.TensorType.FLOAT32,
    buffer: int = 0,
    signature: Sequence[int] | None = None,
) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape, tensor.type, tensor.buffer = name.encode(), list(shape), kind, buffer
    if signature is not None:
        tensor.shapeSignature = list(signature)
    return tensor


def _operator(code: int, options: str, *, version: int = 1) -> tuple[Any, Any, int]:
    described = schema.OperatorCodeT()
    described.builtinCode, described.deprecatedBuiltinCode, described.version = code, min(code, 127), version
    kind = getattr(schema.BuiltinOptions, f"{options}Options")
    return described, getattr(schema, f"{options}OptionsT")(), kind


def _file(tensors: list[Any], *, operator: tuple[Any, Any, int], inputs: list[int], given: list[int]) -> bytes:
    last = len(tensors) - 1
    return _pack(tensors, operator=operator, steps=[(inputs, [last])], given=given, wanted=[last], buffers=[])


def _pack(
    tensors: list[Any],
    *,
    operator: tuple[Any, Any, int],
    steps: Sequence[tuple[list[int], list[int]]],
    given: list[int],
    wanted: list[int],
    buffers: Sequence[bytes],
) -> bytes:
    code, options, kind = operator
    graph = schema.SubGraphT()
    graph.name, graph.tensors, graph.inputs, graph.outputs = b"main", tensors, given, wanted
    graph.operators = [_step(options, kind, inputs, outputs) for inputs, outputs in steps]
    model = schema.ModelT()
    model.version, model.operatorCodes, model.subgraphs = 3, [code], [graph]
    model.buffers = [_buffer(content) for content in (b"", *buffers)]  # the first is empty by convention
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _step(options: Any, kind: int, inputs: list[int], outputs: list[int]) -> Any:
    step = schema.OperatorT()
    step.inputs, step.outputs, step.builtinOptions, step.builtinOptionsType = inputs, outputs, options, kind
    return step


def _buffer(content: bytes) -> Any:
    buffer = schema.BufferT()
    if content:
        buffer.data = np.frombuffer(content, np.uint8)
    return buffer
