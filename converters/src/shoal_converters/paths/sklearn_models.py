"""How does a fitted scikit-learn estimator come out of a file or out of code?

`.joblib` and `.pkl` are pickles, which run what their author wrote into them: convert only your own.
"""

import importlib
import pickle
from typing import Any

import joblib

from shoal_converters.errors import BadModel, BadRecipe
from shoal_converters.paths.messages import Request


def load_estimator(request: Request) -> Any:
    """The estimator; whether it was fitted isn't looked at.

    Raises:
        BadModel: the file can't be unpickled, or holds no estimator.
        BadRecipe: no such code, or it raises.
    """
    estimator = _call(request.source) if request.format == "sklearn-code" else _load(request.source)
    if not hasattr(estimator, "fit"):
        raise BadModel(f"{request.source}: holds {type(estimator).__name__}, expected a scikit-learn estimator")
    return estimator


def _load(path: str) -> Any:
    try:
        return joblib.load(path)
    except (OSError, pickle.UnpicklingError, EOFError, ImportError, AttributeError, ValueError, KeyError) as error:
        raise BadModel(f"{path}: can't be unpickled: {type(error).__name__}: {error}") from error


def _call(source: str) -> Any:
    module_name, _, function_name = source.partition(":")
    try:
        return getattr(importlib.import_module(module_name), function_name)()
    except Exception as error:
        raise BadRecipe(f"{source}: {type(error).__name__}: {error}") from error
