"""Which models are small enough to be made in a test? Made node by node, with weights that tests know."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from shoal_converters.paths.messages import Request

Array = NDArray[np.float32]

FEATURES, HIDDEN, CLASSES = 8, 16, 4


def weights(seed: int = 0) -> tuple[Array, Array]:
    """Of two layers: float32[8, 16] and float32[16, 4]."""
    rng = np.random.default_rng(seed)
    shapes = (FEATURES, HIDDEN), (HIDDEN, CLASSES)
    first, second = (rng.standard_normal(shape).astype(np.float32) / np.float32(3) for shape in shapes)
    return first, second


def items(count: int, *, seed: int = 1) -> Array:
    """float32[count, 1, 8]: calls of these models."""
    return np.random.default_rng(seed).uniform(-1, 1, (count, 1, FEATURES)).astype(np.float32)


def reference(x: Array) -> Array:
    """What the models below compute of float32[…, 8]."""
    first, second = weights()
    answer: Array = np.tanh(x @ first) @ second
    return answer


def onnx_model(*, opset: int = 17, ir_version: int = 8, scale: float = 1.0) -> onnx.ModelProto:
    """`wide` → Tanh → `head`. With a `scale`, one of 16 channels of `wide` is that much larger than the others.

    Tanh makes ±1 of that channel, and `head` doesn't look at it: the model's answer hardly changes, but 8 bits for all
    channels of the tensor between leave nothing of the others.
    """
    first, second = (one.copy() for one in weights())
    first[:, 0] *= scale
    second[0] = 0.0 if scale != 1.0 else second[0]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="wide"),
        helper.make_node("Tanh", ["h"], ["t"], name="squash"),
        helper.make_node("Gemm", ["t", "w2", "b2"], ["y"], name="head"),
    ]
    constants = {"w1": first, "b1": np.zeros(HIDDEN, np.float32), "w2": second, "b2": np.zeros(CLASSES, np.float32)}
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def tflite_model(*, is_half: bool = False, layers: tuple[Array, Array] | None = None) -> bytes:
    """The same two layers as a TFLite file without a signature; with float16 weights that are dequantized, if so."""
    file = _Builder()
    first, second = layers or weights()
    file.input("x", first.shape[0])
    file.connect("x", first.T, "h", is_half=is_half)
    file.add(schema.BuiltinOperator.TANH, ["h"], "t", first.shape[1])
    file.connect("t", second.T, "y", is_half=is_half)
    return file.finish("x", "y")


def write_calls(path: Path, calls: Sequence[Array], *, name: str = "x") -> Path:
    """Write calls with one input as a calibration set."""
    arrays: dict[str, Any] = {f"{number}/{name}": call for number, call in enumerate(calls)}
    np.savez(path, **arrays)
    return path


def request(source: Path, folder: Path, *variants: str, **more: Any) -> Request:
    """To convert into a folder, which is made."""
    folder.mkdir()
    return Request(source=f"{source}", format="", folder=f"{folder}", variants=variants, **more)


class _Builder:
    """A TFLite file of one graph."""

    def __init__(self) -> None:
        self._graph = schema.SubGraphT()
        self._graph.tensors, self._graph.operators = [], []
        self._model = schema.ModelT()
        self._model.version = 3
        self._model.buffers = [schema.BufferT()]
        self._model.operatorCodes = []
        self._model.subgraphs = [self._graph]
        self._places: dict[str, int] = {}

    def input(self, name: str, length: int) -> None:
        self._tensor(name, (1, length))

    def connect(self, source: str, weight: Array, target: str, *, is_half: bool) -> None:
        """A fully connected layer with weights float32[outputs, inputs] and no bias."""
        name = f"{target}/weight"
        if is_half:
            self._tensor(f"{name}/half", weight.shape, data=weight.astype(np.float16))
            self._tensor(name, weight.shape)
            self._operator(schema.BuiltinOperator.DEQUANTIZE, [f"{name}/half"], name)
        else:
            self._tensor(name, weight.shape, data=weight)
        self._tensor(target, (1, weight.shape[0]))
        options = schema.FullyConnectedOptionsT()
        self._operator(schema.BuiltinOperator.FULLY_CONNECTED, [source, name], target)
        self._graph.operators[-1].builtinOptionsType = schema.BuiltinOptions.FullyConnectedOptions
        self._graph.operators[-1].builtinOptions = options

    def add(self, code: int, sources: Sequence[str], target: str, length: int) -> None:
        self._tensor(target, (1, length))
        self._operator(code, sources, target)

    def finish(self, first: str, last: str) -> bytes:
        self._graph.inputs, self._graph.outputs = [self._places[first]], [self._places[last]]
        builder = flatbuffers.Builder(1024)
        builder.Finish(self._model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, name: str, shape: Sequence[int], *, data: NDArray[Any] | None = None) -> None:
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name.encode(), list(shape)
        is_half = data is not None and data.dtype == np.float16
        tensor.type = schema.TensorType.FLOAT16 if is_half else schema.TensorType.FLOAT32
        tensor.buffer = len(self._model.buffers)
        buffer = schema.BufferT()
        if data is not None:
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        self._model.buffers.append(buffer)
        self._places[name] = len(self._graph.tensors)
        self._graph.tensors.append(tensor)

    def _operator(self, code: int, sources: Sequence[str], target: str) -> None:
        kind = schema.OperatorCodeT()
        kind.builtinCode = kind.deprecatedBuiltinCode = code
        operator = schema.OperatorT()
        operator.opcodeIndex = len(self._model.operatorCodes)
        operator.inputs = [self._places[name] for name in sources]
        operator.outputs = [self._places[target]]
        self._model.operatorCodes.append(kind)
        self._graph.operators.append(operator)
