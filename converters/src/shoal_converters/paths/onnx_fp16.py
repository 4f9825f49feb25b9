"""How does a float32 ONNX file become one that computes in float16, with inputs and outputs as they were?"""

from collections import Counter
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.transformers import float16

from shoal_converters.errors import BadModel
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.onnx_file import load_session, name_nodes, read_model, read_signature, shorten, write_model
from shoal_converters.paths.quantizing import describe_kinds
from shoal_converters.paths.signature import bind

FILE = "model.onnx"
LEFT = (*float16.DEFAULT_OP_BLOCK_LIST, "BatchNormalization")
"""Operators that stay in float32: the tool's own list, and one whose variances may be too small for float16, by the
roots of which everything is divided."""


def convert(request: Request) -> Reply:
    """Convert weights and nodes, except those of operators in LEFT.

    Raises:
        BadModel: the converter or, afterwards, ONNX Runtime doesn't take the model.
    """
    source = Path(request.source)
    model = read_model(source)
    before = Counter(node.op_type for node in model.graph.node)
    _keep_constants(model.graph)
    try:
        halved = float16.convert_float_to_float16(
            model, keep_io_types=True, disable_shape_infer=False, op_block_list=list(LEFT)
        )
        name_nodes(halved)
        load_session(halved)
    except Exception as error:  # of the converter or of ONNX Runtime
        raise BadModel(
            f"{source.name}: no float16 by ONNX Runtime {onnxruntime.__version__}: {shorten(error)}"
        ) from None
    inputs, outputs = read_signature(halved)
    write_model(halved, Path(request.folder, FILE))
    blocked = [name for name in before.elements() if name in LEFT]
    made = Made(
        name="onnx-fp16",
        format="onnx",
        precision="fp16",
        files=(FILE,),
        bindings=(
            *bind(request.inputs, inputs, what=f"{source.name}: inputs"),
            *bind(request.outputs, outputs, what=f"{source.name}: outputs"),
        ),
        how=f"onnxruntime.transformers.float16 {onnxruntime.__version__}, onnx {onnx.__version__}",
    )
    notes = (f"left in float32, as float16 isn't enough for them: {describe_kinds(blocked)}",) if blocked else ()
    return Reply(made=(made,), notes=notes)


def _keep_constants(graph: onnx.GraphProto) -> None:
    """Constants become initializers: of these the tool leaves those in float32 that only nodes of LEFT use."""
    kept = []
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            graph.initializer.add().CopyFrom(node.attribute[0].t)
            graph.initializer[-1].name = node.output[0]
        else:
            kept.append(node)
    del graph.node[:]
    graph.node.extend(kept)
