"""What does an ONNX file hold? By the messages of onnx.proto (github.com/onnx/onnx), without the onnx package."""

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from shoal_converters.errors import BadModel
from shoal_converters.inspection.facts import Facts, TensorFacts, count_operators, dominant_precision
from shoal_converters.inspection.protobuf import MAX_DEPTH, Message, map_file

DTYPES = (
    *("undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16"),
    *("float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "uint4", "int4", "float4_e2m1"),
)
"""TensorProto.DataType, in its order."""
BITS = {"bool": 8, "uint4": 4, "int4": 4, "float4_e2m1": 4, "bfloat16": 16, "complex64": 64, "complex128": 128}
STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
ONNXRUNTIME_DOMAINS = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")
CONTROL_FLOW = ("If", "Loop", "Scan")
DYNAMIC_INT8 = ("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM")
INTEGER_OPERATORS = ("QLinearConv", "QLinearMatMul", "QLinearAdd", "QGemm", "QLinearGlobalAveragePool")
MANY = 20

# Of ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto and ValueInfoProto.
_IR, _PRODUCER, _PRODUCER_VERSION, _GRAPH, _OPSETS, _METADATA, _FUNCTIONS = 1, 2, 3, 7, 8, 14, 25
_NODES, _INITIALIZERS, _INPUTS, _OUTPUTS, _SPARSE = 1, 5, 11, 12, 15
_NODE_INPUTS, _OPERATOR, _ATTRIBUTES, _DOMAIN = 1, 4, 5, 7
_ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS = (5, 10), (6, 11)
_DIMENSIONS, _DTYPE, _INT32S, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 5, 8, 9, 13, 14


@dataclass
class _Found:
    """What was met so far."""

    operators: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    bytes_by_dtype: Counter[str] = field(default_factory=Counter)
    parameters: int = 0
    external: set[str] = field(default_factory=set)
    dtypes: dict[str, str] = field(default_factory=dict)
    """Of constants, by name."""
    shifted: set[str] = field(default_factory=set)
    """Constants that aren't all zero, of those that may be a zero point."""
    dequantized: list[list[str]] = field(default_factory=list)
    """Inputs of each DequantizeLinear."""
    quantized: list[list[str]] = field(default_factory=list)
    """Inputs of each QuantizeLinear."""


def is_onnx(model: Message) -> bool:
    """Whether a message has the fields of a model and no others."""
    kinds = {_IR: 0, _PRODUCER: 2, _PRODUCER_VERSION: 2, 4: 2, 5: 0, 6: 2, _GRAPH: 2, _OPSETS: 2, _METADATA: 2}
    kinds |= {20: 2, _FUNCTIONS: 2, 26: 2}
    fits = all(found == {kinds.get(field)} for field, found in model.kinds.items())
    return fits and model.has(_GRAPH) and (model.has(_OPSETS) or model.has(_IR))


def read_onnx(path: Path) -> Facts:
    """Read the structure of a file; of weights only what is said about them.

    Raises:
        BadModel: broken, cut short, or without a graph.
    """
    model = Message(map_file(path), what=str(path))
    if not model.has(_GRAPH):
        raise BadModel(f"{path}: not an ONNX file: it holds no graph")
    graph = model.message(_GRAPH)
    found = _Found()
    _look_into(graph, found, depth=0)
    for function in model.messages(_FUNCTIONS):
        for node in function.messages(7):
            _look_at_node(node, found, depth=0)
    opsets = {opset.text(1) or "ai.onnx": opset.number(2) for opset in model.messages(_OPSETS)}
    versions = {"IR": str(model.number(_IR))}
    versions |= {f"opset {domain}": str(version) for domain, version in sorted(opsets.items())}
    producer = f"{model.text(_PRODUCER)} {model.text(_PRODUCER_VERSION)}".strip()
    if producer:
        versions["written by"] = producer
    precision, how = _judge_precision(found)
    return Facts(
        format="onnx",
        inputs=tuple(_tensor(info) for info in graph.messages(_INPUTS) if info.text(1) not in found.dtypes),
        outputs=tuple(_tensor(info) for info in graph.messages(_OUTPUTS)),
        operators=count_operators(found.operators),
        versions=versions,
        parameters=found.parameters,
        parameter_bytes=sum(found.bytes_by_dtype.values()),
        precision=precision,
        how_quantized=how,
        custom_operators=_custom_operators(found),
        external_files=tuple(sorted(found.external)),
        traits=_traits(found),
        notes=_notes(path, found),
    )


def _look_into(graph: Message, found: _Found, *, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BadModel(f"{graph.what}: graphs inside graphs, more than {MAX_DEPTH} deep")
    for tensor in graph.messages(_INITIALIZERS):
        _look_at_tensor(tensor, found)
    for sparse in graph.messages(_SPARSE):
        _look_at_tensor(sparse.message(1), found)
    for node in graph.messages(_NODES):
        _look_at_node(node, found, depth=depth)


def _look_at_node(node: Message, found: _Found, *, depth: int) -> None:
    name = node.text(_OPERATOR)
    domain = node.text(_DOMAIN)
    found.operators[(name, "" if domain == "ai.onnx" else domain, "")] += 1
    if name == "DequantizeLinear":
        found.dequantized.append(node.texts(_NODE_INPUTS))
    elif name == "QuantizeLinear":
        found.quantized.append(node.texts(_NODE_INPUTS))
    for attribute in node.messages(_ATTRIBUTES):
        for number in _ATTRIBUTE_TENSORS:
            for tensor in attribute.messages(number):
                _look_at_tensor(tensor, found, name=(node.texts(2) or [""])[0])
        for number in _ATTRIBUTE_GRAPHS:
            for graph in attribute.messages(number):
                _look_into(graph, found, depth=depth + 1)


def _look_at_tensor(tensor: Message, found: _Found, *, name: str = "") -> None:
    dtype = _dtype(tensor.number(_DTYPE))
    dimensions = tensor.numbers(_DIMENSIONS)
    if any(length < 0 for length in dimensions):
        raise BadModel(f"{tensor.what}: the constant {tensor.text(_NAME)!r} has a negative length: {dimensions}")
    values = math.prod(dimensions)
    found.parameters += values
    found.bytes_by_dtype[dtype] += -(-values * _bits(dtype) // 8)
    name = tensor.text(_NAME) or name
    found.dtypes[name] = dtype
    if dtype in ("int8", "uint8") and (
        any(tensor.numbers(_INT32S)) or any(any(raw[:4096]) for raw in tensor.raw(_RAW))
    ):
        found.shifted.add(name)
    if tensor.number(_LOCATION) == 1 or tensor.has(_EXTERNAL):
        places = {entry.text(1): entry.text(2) for entry in tensor.messages(_EXTERNAL)}
        found.external.add(places.get("location", ""))


def _tensor(info: Message) -> TensorFacts:
    kind = info.message(2)
    tensor = kind.message(1)
    if not kind.has(1):
        others = {4: "sequence", 5: "map", 8: "sparse tensor", 9: "optional"}
        found = next((word for number, word in others.items() if kind.has(number)), "undefined")
        return TensorFacts(name=info.text(1), dtype=found)
    dtype = _dtype(tensor.number(1))
    if not tensor.has(2):
        return TensorFacts(name=info.text(1), dtype=dtype)
    dimensions = list(tensor.message(2).messages(1))
    shape = tuple(max(-1, dimension.number(1, default=-1)) for dimension in dimensions)
    axes = tuple(dimension.text(2) for dimension in dimensions)
    return TensorFacts(name=info.text(1), dtype=dtype, shape=shape, axes=axes if any(axes) else ())


def _judge_precision(found: _Found) -> tuple[str, str]:
    names = Counter[str]()
    for (name, _, _), count in found.operators.items():
        names[name] += count
    stored = dominant_precision(found.bytes_by_dtype)
    if names["MatMulNBits"]:
        return "int4-weights", f"weights of a few bits in {names['MatMulNBits']} MatMulNBits operators"
    dynamic = sum(names[name] for name in DYNAMIC_INT8)
    if dynamic:
        return "int8-weights", "dynamic INT8: activations are quantized anew in each run (slow for convolutions)"
    integer = sum(names[name] for name in INTEGER_OPERATORS)
    if integer:
        return "int8", f"static INT8 in {integer} integer operators (QOperator form)"
    if names["QuantizeLinear"]:
        pairs = f"{names['QuantizeLinear']} QuantizeLinear, {names['DequantizeLinear']} DequantizeLinear"
        return "int8", f"static INT8 in QDQ form: {pairs}"
    if names["DequantizeLinear"]:
        return stored, f"weights only: {names['DequantizeLinear']} DequantizeLinear"
    return stored, ""


def _traits(found: _Found) -> tuple[str, ...]:
    names = {name for name, _, _ in found.operators}
    domains = {domain for _, domain, _ in found.operators}
    zero_points = {inputs[2] for inputs in [*found.quantized, *found.dequantized] if len(inputs) > 2}
    claims = {
        "external-files": bool(found.external),
        "control-flow": bool(names & set(CONTROL_FLOW)),
        "float16-operators": "float16" in found.bytes_by_dtype,
        "onnxruntime-operators": bool(domains & set(ONNXRUNTIME_DOMAINS)),
        "classical-operators": "ai.onnx.ml" in domains,
        "quantized-bias": any(found.dtypes.get(inputs[0]) == "int32" for inputs in found.dequantized if inputs),
        "asymmetric-quantization": bool(zero_points & found.shifted),
        "dynamic-int8": bool(names & set(DYNAMIC_INT8)),
        "integer-operators": bool(names & set(INTEGER_OPERATORS)),
    }
    return tuple(name for name, holds in claims.items() if holds)


def _custom_operators(found: _Found) -> tuple[str, ...]:
    known = (*STANDARD_DOMAINS, *ONNXRUNTIME_DOMAINS)
    return tuple(sorted({f"{domain}.{name}" for name, domain, _ in found.operators if domain not in known}))


def _notes(path: Path, found: _Found) -> tuple[str, ...]:
    notes = []
    for name in sorted(found.external)[:MANY]:
        # What a file names may lead anywhere: only what lies beside it is looked for.
        beside = path.parent / name
        if Path(name).name != name or not beside.is_file():
            notes.append(f"weights are in {name!r}, which is not a file beside this one")
    return tuple(notes)


def _dtype(number: int) -> str:
    return DTYPES[number] if 0 <= number < len(DTYPES) else f"type {number}"


def _bits(dtype: str) -> int:
    digits = dtype.partition("_")[0].lstrip("abcdefghijklmnopqrstuvwxyz")
    return BITS.get(dtype) or (int(digits) if digits.isdigit() else 0)
