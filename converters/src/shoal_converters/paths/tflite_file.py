"""How do the TFLite paths read, change and write a file, and what signature has it?"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadModel
from shoal_converters.paths.signature import Quantized

Model = Any
"""A `schema.ModelT`: the whole file as objects."""
Array = NDArray[Any]

IDENTIFIER = b"TFL3"
SIGNATURE = "serving_default"
FREE = -1
ABSENT = -1
"""In place of a tensor's number: an optional input that isn't there."""
NAMES: Mapping[int, str] = {number: name for name, number in vars(schema.BuiltinOperator).items() if name.isupper()}
SMALL = (schema.TensorType.INT8, schema.TensorType.UINT8, schema.TensorType.INT16, schema.TensorType.INT4)


def read_file(path: Path) -> bytes:
    """Raises BadModel: no TFLite file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror}") from None
    if content[4:8] != IDENTIFIER:
        raise BadModel(f"{path.name}: not a TFLite file: expected {IDENTIFIER!r} at byte 4, found {content[4:8]!r}")
    return content


def load(content: bytes, *, what: str) -> Interpreter:
    """An interpreter with its memory planned.

    Raises:
        BadModel: LiteRT doesn't take the file.
    """
    try:
        interpreter = Interpreter(model_content=content, num_threads=1)
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        lines = f"{error}".strip().splitlines() or [type(error).__name__]
        raise BadModel(f"{what}: LiteRT doesn't take it: {lines[-1][:500]}") from None
    return interpreter


def read_signature(interpreter: Interpreter) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and outputs as the file has them, by the names of their tensors."""
    details = interpreter.get_input_details(), interpreter.get_output_details()
    inputs, outputs = (tuple(map(_read_tensor, side)) for side in details)
    return inputs, outputs


def read_quantization(interpreter: Interpreter) -> dict[str, Quantized]:
    """Scale and zero point of the inputs and outputs that are integers for real numbers, by their names."""
    found = {}
    for details in (*interpreter.get_input_details(), *interpreter.get_output_details()):
        scale, zero_point = details["quantization"]
        if scale:
            found[details["name"]] = Quantized(float(scale), int(zero_point))
    return found


def unpack(content: bytes) -> Model:
    """The file as objects that can be changed: constants in their buffers, also where they lie behind the flatbuffer,
    and numbers of operators in the wide field, as newer files have them.
    """
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    for buffer in model.buffers:
        if buffer.offset > 1:  # 0 and 1 say that it has none
            buffer.data = np.frombuffer(content, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    for code in model.operatorCodes:
        code.builtinCode = max(code.builtinCode, code.deprecatedBuiltinCode)
    return model


def pack(model: Model) -> bytes:
    """The file of changed objects."""
    builder = flatbuffers.Builder(1 << 20)
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())


def add_signature(model: Model) -> None:
    """Give a file that has no signature one of its first graph, by the names of the tensors: tools ask for it."""
    if model.signatureDefs:
        return
    graph = model.subgraphs[0]
    signature = schema.SignatureDefT()
    signature.signatureKey = SIGNATURE.encode()
    signature.subgraphIndex = 0
    signature.inputs = [_map(graph, index) for index in graph.inputs]
    signature.outputs = [_map(graph, index) for index in graph.outputs]
    model.signatureDefs = [signature]


def restore_outputs(model: Model, original: Model) -> None:
    """Give the outputs the names and free lengths that they had: tools put new tensors behind them."""
    graph, before = model.subgraphs[0], original.subgraphs[0]
    names = {before.tensors[index].name for index in before.outputs}
    for tensor in graph.tensors:
        if tensor.name in names:
            tensor.name += b"_inner"
    for index, old in zip(graph.outputs, before.outputs, strict=True):
        graph.tensors[index].name = before.tensors[old].name
        graph.tensors[index].shapeSignature = before.tensors[old].shapeSignature


def list_operators(model: Model) -> Iterator[tuple[str, str]]:
    """Each operator of the first graph: names of its outputs, each with a semicolon, and its kind."""
    graph = model.subgraphs[0]
    for operator in graph.operators:
        kind = NAMES.get(model.operatorCodes[operator.opcodeIndex].builtinCode, "CUSTOM")
        yield "".join(f"{graph.tensors[index].name.decode()};" for index in operator.outputs), kind


def has_integer_weights(model: Model) -> bool:
    """Whether it is quantized already."""
    return any(
        tensor.type in SMALL and tensor.quantization is not None and tensor.quantization.scale is not None
        for graph in model.subgraphs
        for tensor in graph.tensors
    )


def fold_half_weights(model: Model) -> int:
    """Replace float16 constants that are dequantized by float32 ones. Gives how many; the model is changed."""
    folded = sum(_fold_graph(model, graph) for graph in model.subgraphs)
    if folded:
        for number, graph in enumerate(model.subgraphs):
            _drop_unused_tensors(model, graph, number=number)
    return folded


def count_half_weights(model: Model) -> int:
    """How many constants are float16."""
    return sum(
        tensor.type == schema.TensorType.FLOAT16 and _constant(model, tensor) is not None
        for graph in model.subgraphs
        for tensor in graph.tensors
    )


def _fold_graph(model: Model, graph: Any) -> int:
    kept = []
    for operator in graph.operators:
        code = model.operatorCodes[operator.opcodeIndex].builtinCode
        source = graph.tensors[operator.inputs[0]] if code == schema.BuiltinOperator.DEQUANTIZE else None
        if source is None or source.type != schema.TensorType.FLOAT16 or source.sparsity is not None:
            kept.append(operator)
            continue
        constant = _constant(model, source)
        if constant is None:
            kept.append(operator)
            continue
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(constant.view(np.float16).astype(np.float32).tobytes(), np.uint8)
        graph.tensors[operator.outputs[0]].buffer = len(model.buffers)
        model.buffers.append(buffer)
        model.buffers[source.buffer].data = None
    folded = len(graph.operators) - len(kept)
    graph.operators = kept
    return folded


def _drop_unused_tensors(model: Model, graph: Any, *, number: int) -> None:
    """Tools that look at every tensor stumble over one that nobody computes."""
    used = {*graph.inputs, *graph.outputs, ABSENT}
    for operator in graph.operators:
        used |= {*operator.inputs, *operator.outputs, *_items(operator.intermediates)}
    kept = [index for index in range(len(graph.tensors)) if index in used]
    places = {ABSENT: ABSENT, **{index: place for place, index in enumerate(kept)}}
    graph.tensors = [graph.tensors[index] for index in kept]
    graph.inputs, graph.outputs = _renumber(graph.inputs, places), _renumber(graph.outputs, places)
    for operator in graph.operators:
        operator.inputs, operator.outputs = _renumber(operator.inputs, places), _renumber(operator.outputs, places)
        if len(_items(operator.intermediates)):
            operator.intermediates = _renumber(operator.intermediates, places)
    for signature in _items(model.signatureDefs):
        if signature.subgraphIndex == number:
            for entry in (*signature.inputs, *signature.outputs):
                entry.tensorIndex = places[entry.tensorIndex]


def _renumber(indices: Sequence[int], places: Mapping[int, int]) -> Array:
    return np.array([places[index] for index in indices], np.int32)


def _items(vector: Any) -> Any:
    """A vector that a file leaves out, as an empty one."""
    return () if vector is None else vector


def _constant(model: Model, tensor: Any) -> Array | None:
    data = model.buffers[tensor.buffer].data
    return None if data is None or not len(data) else np.asarray(data, np.uint8)


def _map(graph: Any, index: int) -> Any:
    entry = schema.TensorMapT()
    entry.name = graph.tensors[index].name
    entry.tensorIndex = index
    return entry


def _read_tensor(details: Mapping[str, Any]) -> Tensor:
    shape: Sequence[int] = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
    lengths = tuple(FREE if length < 0 else int(length) for length in shape)
    return Tensor(details["name"], np.dtype(details["dtype"]).name, lengths)
