"""What does a scikit-learn estimator answer in scikit-learn itself? A path that makes no form, but outputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from shoal_wire.manifest import Tensor

from shoal_converters.errors import BadModel, PathFailed
from shoal_converters.paths.call_files import Tensors, answer_calls
from shoal_converters.paths.messages import Reply, Request
from shoal_converters.paths.sklearn_models import load_estimator

Array = NDArray[Any]
Method = Callable[[Array], Any]

METHODS = ("predict_proba", "decision_function", "transform", "predict")
"""What an ONNX file of an estimator gives beside a label: the first of these that it has."""
REGRESSOR = ("predict",)


def convert(request: Request) -> Reply:
    """Run every call.

    Raises:
        BadModel, BadRecipe: see `sklearn_models`.
        BadData: no calls.
        PathFailed: several tables of inputs or of outputs, or none that has the output's form.
    """
    estimator = load_estimator(request)
    if len(request.inputs) != 1 or len(request.outputs) != 1:
        found = f"{len(request.inputs)} inputs and {len(request.outputs)} outputs"
        raise PathFailed(f"scikit-learn answers by one table for one table; the model has {found}")
    (taken,), (given,) = request.inputs, request.outputs
    name, method = _choose_method(estimator, request.source)

    def answer(call: Tensors) -> Tensors:
        rows = call[taken.name]
        try:
            numbers = np.asarray(method(rows))
        except Exception as error:  # whatever an estimator says to rows that it doesn't take, or that it wasn't fitted
            raise BadModel(f"{request.source}: {name} fails: {type(error).__name__}: {error}") from error
        return {given.name: _shape(numbers, given, rows=len(rows), name=name)}

    return answer_calls(request, answer, how=f"scikit-learn {sklearn.__version__}, its {name}")


def _choose_method(estimator: Any, source: str) -> tuple[str, Method]:
    for name in REGRESSOR if sklearn.base.is_regressor(estimator) else METHODS:
        method: Method | None = getattr(estimator, name, None)
        if method is not None:
            return name, method
    raise BadModel(f"{source}: {type(estimator).__name__} has none of {', '.join(METHODS)}")


def _shape(numbers: Array, tensor: Tensor, *, rows: int, name: str) -> Array:
    """As the file has them: rows of one number where scikit-learn has none, and a column for each of two classes."""
    if numbers.shape == (rows,):
        numbers = np.stack([-numbers, numbers], axis=1) if tensor.shape[1:] == (2,) else numbers[:, None]
    if len(tensor.shape) != numbers.ndim or tensor.shape[1:] != numbers.shape[1:]:
        raise PathFailed(f"{name} gives {list(numbers.shape)}, the file {list(tensor.shape)}: they can't be compared")
    return numbers
