"""How does any ONNX file become one that the engines here take: checked, in one file, with all known shapes?"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadModel
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.onnx_file import (
    FREE,
    load_session,
    name_nodes,
    read_model,
    read_signature,
    shorten,
    write_model,
)
from shoal_converters.paths.signature import bind, complete

FILE = "model.onnx"
IR_VERSION = 10
"""Which ONNX Runtime has read since 1.18; newer ones add nothing that a float model needs."""
UNNAMED = "?"
"""What Paddle2ONNX calls all lengths that it doesn't know: no name that two would share."""
OPSETS = (21, 17)
"""To which a model is converted that ONNX Runtime refuses as it is."""


def convert(request: Request) -> Reply:
    """Check a file and write it whole. What is in it stays as it is as long as ONNX Runtime takes it.

    Lengths that are free in the file and known to the recipe are fixed.

    Raises:
        BadModel: not an ONNX file, another signature than the recipe's, or one that ONNX Runtime doesn't take.
    """
    source = Path(request.source)
    model = read_model(source)
    if request.inputs:
        _fix_lengths(model, request.inputs, what=source.name)
    name_nodes(model)
    model, notes = _make_loadable(model, what=source.name)
    _check_weights(model, what=source.name)
    file_inputs, file_outputs = read_signature(model)
    inputs = complete(request.inputs, file_inputs, what=f"{source.name}: inputs")
    outputs = complete(request.outputs, file_outputs, what=f"{source.name}: outputs")
    bindings = (
        *bind(inputs, file_inputs, what=f"{source.name}: inputs"),
        *bind(outputs, file_outputs, what=f"{source.name}: outputs"),
    )
    write_model(model, Path(request.folder, FILE))
    made = Made(
        name="onnx-fp32",
        format="onnx",
        precision="fp32",
        files=(FILE,),
        bindings=bindings,
        how=f"as given, checked by onnx {onnx.__version__}" if not notes else f"onnx {onnx.__version__}: {notes[0]}",
    )
    return Reply(made=(made,), inputs=inputs, outputs=outputs, notes=tuple(notes))


def _fix_lengths(model: onnx.ModelProto, wanted: Sequence[Tensor], *, what: str) -> None:
    """Set lengths that the file leaves free and the recipe knows, wherever the file uses their names."""
    values = {value.name: value for value in model.graph.input}
    known: dict[str, int] = {}
    for tensor in wanted:
        value = values.get(tensor.name)
        lengths = value.type.tensor_type.shape.dim if value is not None else ()
        if len(lengths) != len(tensor.shape):
            continue  # `bind` says what is wrong, or what its name is
        for length, number in zip(lengths, tensor.shape, strict=True):
            if number == FREE or length.dim_value > 0:
                continue
            if length.dim_param == UNNAMED:
                length.dim_param = ""
            if length.dim_param and known.setdefault(length.dim_param, number) != number:
                raise BadModel(f"{what}: {length.dim_param} can't be {known[length.dim_param]} and {number} at once")
            length.dim_value = number
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for length in value.type.tensor_type.shape.dim:
            if length.dim_param in known:
                length.dim_value = known[length.dim_param]


def _make_loadable(model: onnx.ModelProto, *, what: str) -> tuple[onnx.ModelProto, list[str]]:
    """The first of the model as it is, with an older IR, and in older opsets, that ONNX Runtime takes."""
    reasons: list[str] = []
    for words, change in _changes(model):
        try:
            changed = change()
            load_session(changed)
        except Exception as error:  # of the converter or of ONNX Runtime
            reasons.append(f"{words}: {shorten(error)}")
            continue
        return changed, [f"{words}, as ONNX Runtime refused it {reasons[0]}"] if reasons else []
    raise BadModel(f"{what}: ONNX Runtime doesn't take it {'; '.join(dict.fromkeys(reasons))}")


def _changes(model: onnx.ModelProto) -> list[tuple[str, Callable[[], onnx.ModelProto]]]:
    def with_older_ir() -> onnx.ModelProto:
        older = onnx.ModelProto()
        older.CopyFrom(model)
        older.ir_version = min(model.ir_version, IR_VERSION)
        return older

    def with_opset(opset: int) -> Callable[[], onnx.ModelProto]:
        return lambda: onnx.version_converter.convert_version(with_older_ir(), opset)

    return [
        ("as it is", lambda: model),
        (f"in IR version {IR_VERSION}", with_older_ir),
        *((f"in opset {opset}", with_opset(opset)) for opset in OPSETS),
    ]


def _check_weights(model: onnx.ModelProto, *, what: str) -> None:
    """Raises BadModel: weights that aren't finite, which no engine computes anything with."""
    for tensor in model.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor)
        if values.dtype.kind == "f" and np.isnan(values).any():
            raise BadModel(f"{what}: the weights {tensor.name} hold NaN")
