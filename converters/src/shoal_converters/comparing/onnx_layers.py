"""Which intermediate tensors do two ONNX models share? Those of the same name.

A tensor that is quantized and at once dequantized is looked at behind that: there it holds what the next layer gets.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal_converters.comparing.taps import Layers, Tap, Tapped, output_name
from shoal_converters.errors import BadModel, ToolMissing

FLOATS = ("FLOAT", "FLOAT16", "DOUBLE")
MOVING = (
    *("QuantizeLinear", "DequantizeLinear", "Constant", "Identity", "Cast", "Reshape", "Transpose", "Flatten", "Pad"),
    *("Squeeze", "Unsqueeze", "Slice", "Split", "Concat", "Expand", "Tile", "Gather"),
)
"""Operators that compute nothing: what they give differs as what they take."""


class _Place(NamedTuple):
    """Of a tensor: the operator that gives it, and the tensor in which its values are looked at."""

    operator: str
    seen_as: str


def observe_onnx(first: Path, second: Path) -> Layers:
    """Find the tensors of floating point that both compute, outside of branches and loops.

    Raises:
        ToolMissing: the package onnx isn't installed.
        BadModel: a file can't be read.
    """
    models = [_load(path) for path in (first, second)]
    here, there = (_look_at(model) for model in models)
    outputs = {value.name for model in models for value in model.graph.output}
    wanted = [name for name in here if name not in outputs]
    taps = [Tap(name, here[name].operator, here[name].seen_as, there[name].seen_as) for name in wanted if name in there]
    return Layers(
        taps=tuple(taps),
        unmatched=len(wanted) - len(taps),
        build=lambda some: Tapped(
            _add_outputs(models[0], [tap.first for tap in some]), _add_outputs(models[1], [tap.second for tap in some])
        ),
    )


def _load(path: Path) -> Any:
    try:
        import onnx
    except ImportError:
        raise ToolMissing("layers of ONNX files: onnx isn't installed: pip install 'shoal-converters[onnx]'") from None
    try:
        return onnx.shape_inference.infer_shapes(onnx.load(str(path), load_external_data=False))
    except Exception as error:  # protobuf's and onnx's own, of which there are many
        raise BadModel(f"{path}: onnx can't read it: {error}"[:400]) from None


def _look_at(model: Any) -> dict[str, _Place]:
    """Tensors of floating point that layers give, by name."""
    from onnx import TensorProto

    floats = [TensorProto.DataType.Value(name) for name in FLOATS]
    known = {value.name for value in model.graph.value_info if value.type.tensor_type.elem_type in floats}
    restored = _find_restored(model.graph.node)
    return {
        name: _Place(node.op_type, restored.get(name, name))
        for node in model.graph.node
        if node.op_type not in MOVING
        for name in node.output
        if name in known
    }


def _find_restored(nodes: Sequence[Any]) -> Mapping[str, str]:
    """Of each tensor that is quantized, the one that holds it dequantized."""
    sources = {node.output[0]: node.input[0] for node in nodes if node.op_type == "QuantizeLinear"}
    return {
        sources[node.input[0]]: node.output[0]
        for node in nodes
        if node.op_type == "DequantizeLinear" and node.input[0] in sources
    }


def _add_outputs(model: Any, names: Sequence[str]) -> tuple[bytes, ...]:
    """The model with further outputs, whose types an engine finds out by itself."""
    import onnx

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for number, name in enumerate(names):
        changed.graph.node.append(onnx.helper.make_node("Identity", [name], [output_name(number)]))
        changed.graph.output.append(onnx.helper.make_empty_tensor_value_info(output_name(number)))
    return (changed.SerializeToString(),)
