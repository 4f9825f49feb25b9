"""How does an ONNX file become a PyTorch module that other tools can trace?

Its shapes are fixed first, and what depends on nothing else is computed by ONNX Runtime. What is left are operators
with constants for all that decides shapes, each of which has a counterpart in PyTorch. That covers convolutional and
dense networks, transformers and recurrent layers of a fixed number of steps; loops and branches are refused by name.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor

from shoal_converters.errors import PathFailed
from shoal_converters.paths.onnx_file import shorten
from shoal_converters.paths.onnx_in_torch.elementwise import ELEMENTWISE, Operator
from shoal_converters.paths.onnx_in_torch.layers import LAYERS
from shoal_converters.paths.onnx_in_torch.node import Node
from shoal_converters.paths.onnx_in_torch.recurrent import RECURRENT
from shoal_converters.paths.onnx_in_torch.shapes import SHAPES

OPERATORS: Mapping[str, Operator] = {**ELEMENTWISE, **SHAPES, **LAYERS, **RECURRENT}
OWN_DOMAINS = ("", "ai.onnx")
ERRORS_ONLY = 3


class OnnxModule(torch.nn.Module):  # type: ignore[misc]  # PyTorch is only where it converts
    """The graph; takes its inputs and gives its outputs in their order."""

    def __init__(self, model: onnx.ModelProto, inputs: Sequence[str]) -> None:
        """Look up every operator. `inputs` are those that aren't constants: older files list these among them too.

        Raises:
            PathFailed: operators that aren't known here, each by name.
        """
        super().__init__()
        graph = model.graph
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "Constant":
                constants[node.output[0]] = _read_constant(node)
        self._names = {name: f"constant_{place}" for place, name in enumerate(constants)}
        for name, value in constants.items():
            self.register_buffer(self._names[name], torch.from_numpy(np.array(value, order="C")))
        opset = next(one.version for one in model.opset_import if one.domain in OWN_DOMAINS)
        self._nodes = [_read_node(node, constants, opset=opset) for node in graph.node if node.op_type != "Constant"]
        unknown = sorted({node.operator for node in self._nodes} - set(OPERATORS))
        if unknown:
            raise PathFailed(f"ONNX operators that have no counterpart here: {', '.join(unknown)}")
        self._inputs = list(inputs)
        self._outputs = [one.name for one in graph.output]
        self.training = False

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run the graph."""
        values: dict[str, torch.Tensor | None] = {name: getattr(self, at) for name, at in self._names.items()}
        values.update(zip(self._inputs, inputs, strict=True))
        values[""] = None
        for node in self._nodes:
            found = OPERATORS[node.operator](node, *(values[name] for name in node.inputs))
            outputs = (found,) if isinstance(found, torch.Tensor) else found
            values.update(zip(node.outputs, outputs, strict=False))
        return tuple(values[name] for name in self._outputs)


def load_onnx(path: Path, shapes: Sequence[Tensor]) -> OnnxModule:
    """A module for inputs of these shapes, none of them free; `shapes` has the file's inputs.

    Raises:
        PathFailed: ONNX Runtime doesn't take it with these shapes, or it has operators without a counterpart.
    """
    model = onnx.load(path)
    lengths = {one.name: one.shape for one in shapes}
    for value in model.graph.input:
        if value.name in lengths:
            del value.type.tensor_type.shape.dim[:]
            for length in lengths[value.name]:
                value.type.tensor_type.shape.dim.add().dim_value = length
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return OnnxModule(_compute_constants(model), [one.name for one in shapes])


def _compute_constants(model: onnx.ModelProto) -> onnx.ModelProto:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "folded.onnx")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        options.optimized_model_filepath = f"{path}"
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # whatever its bindings translate
            raise PathFailed(f"ONNX Runtime doesn't take the model with fixed shapes: {shorten(error)}") from error
        return onnx.load(path)


def _read_constant(node: onnx.NodeProto) -> NDArray[Any]:
    (attribute,) = node.attribute
    value = onnx.helper.get_attribute_value(attribute)
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def _read_node(node: onnx.NodeProto, constants: Mapping[str, NDArray[Any]], *, opset: int) -> Node:
    name = node.name or (node.output[0] if node.output else "without a name")
    # Those of other domains may share a name with ONNX's own.
    operator = node.op_type if node.domain in OWN_DOMAINS else f"{node.domain}.{node.op_type}"
    return Node(
        operator=operator,
        name=name,
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        attributes={one.name: onnx.helper.get_attribute_value(one) for one in node.attribute},
        constants={place: constants[name] for place, name in enumerate(node.input) if name in constants},
        opset=opset,
    )
