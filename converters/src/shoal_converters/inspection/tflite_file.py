"""What does a TFLite file hold? By the classes that LiteRT's package has of its schema.

Tables are looked at one by one, never unpacked as a whole: a vector that claims a thousand million items costs nothing.
"""

import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ai_edge_litert import schema_py_generated as schema
from shoal_worker.tflite_file import BrokenFile, find_per_channel_hybrid

from shoal_converters.errors import BadModel
from shoal_converters.inspection.facts import Facts, TensorFacts, count_operators, dominant_precision
from shoal_converters.inspection.protobuf import map_file

MAX_TABLES = 1_000_000
"""In all of a file."""
BROKEN = (struct.error, ValueError, TypeError, IndexError, OverflowError, AttributeError)
"""What the schema's classes raise where an offset leads out of the file."""
BUILT_IN_CUSTOM = ("TFLite_Detection_PostProcess", "Mfcc", "AudioSpectrogram", "NumericVerify")
"""Operators that have no number but are in LiteRT's and tflite-runtime's own set (register.cc)."""
WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV", "CONV_3D", "BATCH_MATMUL")
HYBRID_NOTE = (
    "tflite-runtime 2.14, the last one, computes dynamic-range INT8 of newer quantizers wrongly and doesn't say so: "
    "run it in litert, or make a static INT8 file"
)
_TYPES: dict[int, str] = {
    number: name.lower() for name, number in vars(schema.TensorType).items() if isinstance(number, int)
}
_OPERATORS: dict[int, str] = {
    number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)
}
_PLACEHOLDER = 127  # of the old field for operators whose number has no room in it


@dataclass
class _Found:
    """What was met so far."""

    tables: int = 0
    operators: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    custom: set[str] = field(default_factory=set)
    bytes_by_dtype: Counter[str] = field(default_factory=Counter)
    parameters: int = 0
    static: int = 0
    wide: int = 0
    hybrid: int = 0
    """Operators with weights whose activations are int8, int16, or float beside integer weights."""
    dequantized: Counter[str] = field(default_factory=Counter)
    """Types of constants that a DEQUANTIZE turns into float."""


def read_tflite(path: Path) -> Facts:
    """Read the structure of a file.

    Raises:
        BadModel: broken, cut short, or without a graph.
    """
    data = map_file(path)
    if bytes(data[4:8]) != b"TFL3":
        raise BadModel(f"{path}: not a TFLite file: expected b'TFL3' at byte 4, found {bytes(data[4:8])!r}")
    try:
        return _read(path, data)
    except BROKEN as error:
        raise BadModel(f"{path}: a broken or cut TFLite file ({type(error).__name__}: {error})") from None


def _read(path: Path, data: memoryview) -> Facts:
    model, found = schema.Model.GetRootAs(data), _Found()
    codes = [_code(code) for code in _each(model.OperatorCodes, model.OperatorCodesLength(), found)]
    graphs = list(_each(model.Subgraphs, model.SubgraphsLength(), found))
    if not graphs:
        raise BadModel(f"{path}: a TFLite file without a graph")
    for graph in graphs:
        _look_into(model, graph, codes, found)
    main = graphs[0]
    precision, how = _judge_precision(found)
    hybrid = _find_hybrid(path, found)
    traits = {
        "custom-operators": bool(found.custom),
        "external-files": model.ExternalBufferGroupsLength() > 0,
        "dynamic-int8": bool(found.hybrid),
        "wrong-in-tflite-runtime": bool(hybrid),
    }
    return Facts(
        format="tflite",
        inputs=tuple(_tensor(_item(main.Tensors, main.TensorsLength(), index)) for index in _indices(main, "Inputs")),
        outputs=tuple(_tensor(_item(main.Tensors, main.TensorsLength(), index)) for index in _indices(main, "Outputs")),
        operators=count_operators(found.operators),
        versions=_versions(model, found),
        parameters=found.parameters,
        parameter_bytes=sum(found.bytes_by_dtype.values()),
        precision=precision,
        how_quantized=how,
        signatures=_signatures(model, found),
        custom_operators=tuple(sorted(found.custom)),
        external_files=tuple(
            _text(group.Name())
            for group in _each(model.ExternalBufferGroups, model.ExternalBufferGroupsLength(), found)
        ),
        traits=tuple(name for name, holds in traits.items() if holds),
        notes=tuple(note for note in (f"{HYBRID_NOTE} ({hybrid})" if hybrid else "",) if note),
    )


def _each(get: Callable[[int], Any], length: int, found: _Found) -> Iterator[Any]:
    for index in range(length):
        found.tables += 1
        if found.tables > MAX_TABLES:
            raise ValueError(f"more than {MAX_TABLES} tables")
        table = get(index)
        if table is None:
            raise ValueError("a table that isn't there")
        yield table


def _item(get: Callable[[int], Any], length: int, index: int) -> Any:
    if not 0 <= index < length:
        raise IndexError(f"tensor {index} of {length}")
    return get(index)


def _indices(table: Any, name: str) -> list[int]:
    if getattr(table, f"{name}IsNone")():
        return []
    return [int(index) for index in getattr(table, f"{name}AsNumpy")()]


def _code(code: Any) -> tuple[str, str, int]:
    """Name, name of a custom operator, version."""
    old = code.DeprecatedBuiltinCode()
    number = max(old, code.BuiltinCode()) if old < _PLACEHOLDER else code.BuiltinCode()
    custom = _text(code.CustomCode()) if _OPERATORS.get(number) == "CUSTOM" else ""
    return custom or _OPERATORS.get(number, f"operator {number}"), custom, code.Version()


def _look_into(model: Any, graph: Any, codes: list[tuple[str, str, int]], found: _Found) -> None:
    tensors = list(_each(graph.Tensors, graph.TensorsLength(), found))
    constants = [_look_at_tensor(model, tensor, found) for tensor in tensors]
    for operator in _each(graph.Operators, graph.OperatorsLength(), found):
        name, custom, version = codes[operator.OpcodeIndex()]
        found.operators[(name, "custom" if custom else "", str(version))] += 1
        if custom and custom not in BUILT_IN_CUSTOM:
            found.custom.add(custom)
        inputs = [index for index in _indices(operator, "Inputs") if index >= 0]
        types = [_dtype(_item(tensors.__getitem__, len(tensors), index)) for index in inputs]
        if name == "DEQUANTIZE" and inputs and constants[inputs[0]]:
            found.dequantized[types[0]] += 1
        if name in WEIGHTED and len(inputs) > 1:
            found.static += types[0] in ("int8", "uint8")
            found.wide += types[0] == "int16"
            found.hybrid += types[0] == "float32" and types[1] in ("int8", "uint8", "int4")


def _look_at_tensor(model: Any, tensor: Any, found: _Found) -> bool:
    """Count it where it is a constant, and say whether it is."""
    number = tensor.Buffer()
    if number >= model.BuffersLength():
        raise IndexError(f"buffer {number} of {model.BuffersLength()}")
    buffer = model.Buffers(number)
    length = buffer.DataLength() or (buffer.Size() if buffer.Offset() > 1 else 0)  # large ones lie behind the tables
    if not length and not tensor.ExternalBuffer():
        return False
    dtype = _dtype(tensor)
    found.parameters += math.prod(_shape(tensor))
    found.bytes_by_dtype[dtype] += length
    return True


def _tensor(tensor: Any) -> TensorFacts:
    shape, signature = _shape(tensor), tensor.ShapeSignatureAsNumpy()
    if not tensor.ShapeSignatureIsNone() and len(signature) == len(shape):
        shape = tuple(int(length) for length in signature)
    scale, zero_point = 0.0, 0
    quantization = tensor.Quantization()
    if quantization is not None and quantization.ScaleLength() == 1:
        scale = float(quantization.Scale(0))
        zero_point = int(quantization.ZeroPoint(0)) if quantization.ZeroPointLength() else 0
    return TensorFacts(name=_text(tensor.Name()), dtype=_dtype(tensor), shape=shape, scale=scale, zero_point=zero_point)


def _shape(tensor: Any) -> tuple[int, ...]:
    return () if tensor.ShapeIsNone() else tuple(int(length) for length in tensor.ShapeAsNumpy())


def _dtype(tensor: Any) -> str:
    number: int = tensor.Type()
    return _TYPES.get(number, f"type {number}")


def _judge_precision(found: _Found) -> tuple[str, str]:
    if found.wide:
        return "int16x8", "static: int16 activations, int8 weights"
    if found.static:
        return "int8", f"static INT8: {found.static} operators with weights compute in integers"
    stored = dominant_precision(found.bytes_by_dtype)
    if found.hybrid:
        words = f"dynamic-range INT8: {found.hybrid} operators take float activations and quantize them in each run"
        return "int8-weights", words
    if found.dequantized["float16"] and stored == "fp16":
        return "fp16", "weights are stored in float16 and turned into float32 when the model is loaded"
    if found.dequantized["int8"] and stored == "int8-weights":
        return "int8-weights", "weights are stored in int8 and turned into float32"
    return stored, ""


def _find_hybrid(path: Path, found: _Found) -> str:
    if not found.hybrid:
        return ""
    try:
        return find_per_channel_hybrid(path.read_bytes()) or ""
    except BrokenFile as error:
        raise ValueError(str(error)) from None


def _versions(model: Any, found: _Found) -> dict[str, str]:
    versions = {"schema": str(model.Version())}
    written = _text(model.Description())
    if written:
        versions["written by"] = written
    for entry in _each(model.Metadata, model.MetadataLength(), found):
        if _text(entry.Name()) == "min_runtime_version" and entry.Buffer() < model.BuffersLength():
            raw = model.Buffers(entry.Buffer()).DataAsNumpy()
            text = "" if isinstance(raw, int) else bytes(raw[:32]).rstrip(b"\0").decode(errors="replace")
            if text:
                versions["at least runtime"] = text
    return versions


def _signatures(model: Any, found: _Found) -> tuple[str, ...]:
    signatures = []
    for signature in _each(model.SignatureDefs, model.SignatureDefsLength(), found):
        inputs = [_text(one.Name()) for one in _each(signature.Inputs, signature.InputsLength(), found)]
        outputs = [_text(one.Name()) for one in _each(signature.Outputs, signature.OutputsLength(), found)]
        key = _text(signature.SignatureKey())
        signatures.append(f"{key}: ({', '.join(inputs)}) -> ({', '.join(outputs)})")
    return tuple(signatures)


def _text(raw: bytes | None) -> str:
    return "" if raw is None else bytes(raw[:4096]).decode(errors="replace")
