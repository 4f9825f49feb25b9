"""Which values of an ONNX graph are known before it runs?

TVM's importer wants each new shape of a Reshape as a constant, while exporters write it as arithmetic over the shape of
another tensor. Once the input's lengths are known, that arithmetic has one result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def fix_shapes(model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]]) -> None:
    """Write the lengths of inputs into the model, in place of those that vary."""
    for value in model.graph.input:
        if value.name in shapes:
            for dimension, length in zip(value.type.tensor_type.shape.dim, shapes[value.name]):
                dimension.dim_value = length


def fold_constants(model: onnx.ModelProto) -> None:
    """Replace every node whose inputs are known by its result, in the main graph."""
    graph = model.graph
    shapes = _known_shapes(model)
    known: dict[str, Any] = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    kept = []
    for node in graph.node:
        results = None if outputs & set(node.output) else _results(node, model=model, known=known, shapes=shapes)
        if results is None:
            kept.append(node)
        else:
            known.update(zip(node.output, results))
    used = {name for node in kept for name in node.input}
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(numpy_helper.from_array(known[name], name) for name in known if name in used)


def _known_shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    inferred = onnx.shape_inference.infer_shapes(model).graph
    shapes = {}
    for value in (*inferred.value_info, *inferred.input, *inferred.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(dimension.HasField("dim_value") for dimension in kind.shape.dim):
            shapes[value.name] = [dimension.dim_value for dimension in kind.shape.dim]
    return shapes


def _results(
    node: onnx.NodeProto, *, model: onnx.ModelProto, known: Mapping[str, Any], shapes: Mapping[str, list[int]]
) -> list[Any] | None:
    """What a node gives; None where that depends on the model's input."""
    if node.op_type == "Shape" and not node.attribute and node.input[0] in shapes:
        return [np.array(shapes[node.input[0]], np.int64)]
    names = [name for name in dict.fromkeys(node.input) if name]
    if not names or not all(name in known for name in names):
        return None
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(known[name].dtype), known[name].shape)
        for name in names
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output]
    alone = helper.make_model(helper.make_graph([node], "node", inputs, outputs), opset_imports=model.opset_import)
    results: Any = ReferenceEvaluator(alone).run(None, {name: known[name] for name in names})
    return [np.asarray(result) for result in results]
