"""How does a fitted scikit-learn estimator become an ONNX file?"""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import sklearn
from shoal_wire.manifest import Tensor
from skl2onnx import convert_sklearn
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType

from shoal_converters.errors import BadModel, BadRecipe, PathFailed
from shoal_converters.paths.messages import Made, Reply, Request
from shoal_converters.paths.sklearn_models import load_estimator

FILE = "model.onnx"
OPSET = 18
OPSETS = {"": OPSET, "ai.onnx.ml": 3}  # of the latter, the newest that skl2onnx has all its estimators for
FREE = -1
KINDS = {"float32": FloatTensorType, "float64": DoubleTensorType, "int64": Int64TensorType}


def convert(request: Request) -> Reply:
    """Write one file that takes rows and gives numbers: probabilities, scores or values, but no label.

    Raises:
        BadModel: the file holds no estimator, or one that wasn't fitted.
        BadRecipe: no such code, or names or types that don't fit.
        PathFailed: skl2onnx doesn't know the estimator.
    """
    estimator = load_estimator(request)
    inputs = request.inputs or (Tensor(name="input", dtype="float32", shape=(FREE, _count_features(estimator))),)
    try:
        model = convert_sklearn(
            estimator,
            initial_types=[(one.name, _kind(one)) for one in inputs],
            options={id(estimator): {"zipmap": False}} if sklearn.base.is_classifier(estimator) else None,
            target_opset=OPSETS,
        )
    except BadRecipe:
        raise
    except Exception as error:  # missing converters, and whatever they raise
        # Of a node that it couldn't make it prints all numbers; what was wrong is the cause.
        line = next(iter(f"{error.__cause__ or error}".strip().splitlines()), "")
        raise PathFailed(f"skl2onnx doesn't take {type(estimator).__name__}: {line}") from error
    _drop_label(model)
    _rename_outputs(model, [one.name for one in request.outputs])
    Path(request.folder, FILE).write_bytes(model.SerializeToString(deterministic=True))
    how = f"skl2onnx {version('skl2onnx')}, scikit-learn {sklearn.__version__}, opset {OPSET}"
    made = Made(name="onnx-fp32", format="onnx", precision="fp32", files=(FILE,), how=how)
    return Reply(made=(made,), inputs=inputs, outputs=tuple(_read(one) for one in model.graph.output))


def _count_features(estimator: Any) -> int:
    count: int | None = getattr(estimator, "n_features_in_", None)
    if count is None:
        raise BadModel(f"{type(estimator).__name__} doesn't say how many features it takes: it wasn't fitted")
    return count


def _kind(tensor: Tensor) -> Any:
    if tensor.dtype not in KINDS or not tensor.shape:
        expected = f"one of {', '.join(KINDS)} with a batch"
        raise BadRecipe(f"input {tensor.name}: expected {expected}, found {tensor.dtype}{list(tensor.shape)}")
    return KINDS[tensor.dtype]([None, *(None if length == FREE else length for length in tensor.shape[1:])])


def _drop_label(model: Any) -> None:
    """Where there are scores too: these say more, and the labels of a release are in its manifest."""
    outputs = model.graph.output
    if len(outputs) > 1 and outputs[0].name == "label":
        del outputs[0]


def _rename_outputs(model: Any, names: Sequence[str]) -> None:
    """Raises BadRecipe: another number of names than of outputs."""
    found = [one.name for one in model.graph.output]
    if not names:
        return
    if len(names) != len(found):
        raise BadRecipe(f"source.outputs has {', '.join(names)}; the estimator gives {', '.join(found)}")
    renamed = dict(zip(found, names, strict=True))
    for node in model.graph.node:
        for side in (node.input, node.output):
            side[:] = [renamed.get(name, name) for name in side]
    for value in model.graph.output:
        value.name = renamed[value.name]


def _read(value: Any) -> Tensor:
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name
    lengths = (one.dim_value if one.dim_value > 0 else FREE for one in kind.shape.dim)
    return Tensor(name=value.name, dtype=dtype, shape=tuple(lengths))
