"""How do the ONNX paths read, check and write a file, and what signature has it?"""

from pathlib import Path
from typing import Any

import onnx
import onnxruntime
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadModel

MAX_FILE_BYTES = (1 << 31) - (1 << 20)
"""Of a Protocol Buffers message, with some room."""
FATAL = 4
FREE = -1


def read_model(path: Path) -> onnx.ModelProto:
    """Load a file with the weights that it has in others beside it, give outputs their shapes, and check it.

    Raises:
        BadModel: not a whole and valid ONNX file, a file of weights is missing, or all of it is too much for one file.
    """
    try:
        model = onnx.load(path)
        if model.ByteSize() > MAX_FILE_BYTES:
            raise BadModel(
                f"{path.name}: {model.ByteSize()} bytes with its weights, expected at most {MAX_FILE_BYTES}, as a "
                "release has an ONNX model in one file; quantize or split it before"
            )
        _infer_outputs(model)
        onnx.checker.check_model(model)
    except BadModel:
        raise
    except Exception as error:  # of Protocol Buffers, of the checker, of the system
        raise BadModel(f"{path.name}: not a valid ONNX file: {shorten(error)}") from None
    return model


def write_model(model: onnx.ModelProto, path: Path) -> None:
    """Write a model into one file; the same model gives the same bytes."""
    path.write_bytes(model.SerializeToString(deterministic=True))


def name_nodes(model: onnx.ModelProto) -> None:
    """Give nodes without a name, or with one that another has, a name of their own."""
    taken: set[str] = set()
    for number, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{number}"
        while name in taken:
            name += "_"
        node.name = name
        taken.add(name)


def read_signature(model: onnx.ModelProto) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and outputs; initialisers that stand among the inputs aren't ones.

    Raises:
        BadModel: one that is no plain tensor, or whose rank isn't known.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    return tuple(map(_read_tensor, inputs)), tuple(map(_read_tensor, model.graph.output))


def load_session(model: onnx.ModelProto | Path, *, threads: int = 0) -> onnxruntime.InferenceSession:
    """A session on the CPU, with the optimisations that an agent's session has.

    Raises whatever ONNX Runtime raises for a model that it doesn't take.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = FATAL
    options.intra_op_num_threads = threads
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    content = f"{model}" if isinstance(model, Path) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def shorten(error: Exception) -> str:
    """The first line of what a tool says that says something, without its own heading."""
    lines = [line.strip() for line in f"{error}".splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    return text[:500]


def _infer_outputs(model: onnx.ModelProto) -> None:
    """Find out the outputs' shapes where the file doesn't say. Those of all other tensors would only make it bigger."""
    try:
        inferred = onnx.shape_inference.infer_shapes(model)
    except Exception:  # operators of other domains may lack the rules; whether it loads is seen afterwards
        return
    for output, known in zip(model.graph.output, inferred.graph.output, strict=True):
        output.CopyFrom(known)


def _read_tensor(value: onnx.ValueInfoProto) -> Tensor:
    kind = value.type.tensor_type
    if value.type.WhichOneof("value") != "tensor_type" or not kind.HasField("shape"):
        found = onnx.helper.printable_value_info(value)
        raise BadModel(f"{value.name}: expected a tensor of known rank, found {found}")
    dtype: Any = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return Tensor(value.name, dtype.name, tuple(_read_length(length) for length in kind.shape.dim))


def _read_length(length: Any) -> int:
    return int(length.dim_value) if length.HasField("dim_value") and length.dim_value > 0 else FREE
