"""Which engines can a worker load, and what does it ask of each?

One engine is one module here with a function `load`. Its library is imported in that module only, so that a
worker's interpreter needs the one engine that it runs.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shoal_worker.errors import BadTensor, EngineMissing, ModelRefused
from shoal_worker.messages import MAX_NAME, MAX_RANK, MAX_TENSORS, Load, TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

ENGINES = {
    "onnxruntime": "onnxruntime_engine",
}


class Inference(Protocol):
    """One run of a model on inputs that fit it."""

    def run(self) -> dict[str, Array]:
        """The outputs by name, in the model's order.

        Raises:
            RunCancelled: `cancel` was called, before or during the run.
            EngineFailed: anything else that the engine reports.
        """

    def cancel(self) -> None:
        """Stop the run, from any thread and at any time. Without effect when it is over."""


class Engine(Protocol):
    """One loaded model."""

    version: str
    placement: tuple[str, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def prepare(self, feeds: Mapping[str, Array]) -> Inference:
        """Check the inputs and make a run of them. The arrays are used, not copied.

        Raises:
            BadTensor: they don't fit the model's signature.
        """


def load_engine(request: Load, *, model: bytes) -> Engine:
    """Load a model in the engine that the request names.

    Raises:
        EngineMissing: no such engine, or this interpreter can't import it.
        ModelRefused: the engine doesn't take the model.
    """
    if request.engine not in ENGINES:
        raise EngineMissing(f"engine must be one of {', '.join(ENGINES)}; found {request.engine!r}")
    try:
        adapter = importlib.import_module(f"{__name__}.{ENGINES[request.engine]}")
    except ImportError as error:
        raise EngineMissing(f"{sys.executable} can't import engine {request.engine}: {error}") from error
    if request.format not in adapter.FORMATS:
        takes = ", ".join(adapter.FORMATS)
        raise ModelRefused(f"engine {request.engine} takes {takes}; found a model in format {request.format!r}")
    engine: Engine = adapter.load(request, model=model)
    for tensors in (engine.inputs, engine.outputs):
        _check_signature(tensors)
    return engine


def _check_signature(tensors: Sequence[TensorSpec]) -> None:
    """Refuse a model whose inputs or outputs don't fit into messages."""
    if len(tensors) > MAX_TENSORS:
        raise ModelRefused(f"a model may have {MAX_TENSORS} inputs and as many outputs, found {len(tensors)}")
    for spec in tensors:
        if len(spec.name) > MAX_NAME or len(spec.shape) > MAX_RANK:
            raise ModelRefused(
                f"an input or output may have a name of {MAX_NAME} characters and {MAX_RANK} dimensions, "
                f"found {len(spec.name)} and {len(spec.shape)}"
            )


def check_feeds(feeds: Mapping[str, Array], *, inputs: Sequence[TensorSpec]) -> None:
    """Check arrays against a signature.

    Raises:
        BadTensor: an input is missing, unknown, or of another type or shape.
    """
    expected = {spec.name: spec for spec in inputs}
    if feeds.keys() != expected.keys():
        raise BadTensor(f"the model's inputs are {sorted(expected)}, found {sorted(feeds)}")
    for name, array in feeds.items():
        spec = expected[name]
        fits = len(array.shape) == len(spec.shape) and all(
            length is None or length == found for length, found in zip(spec.shape, array.shape)
        )
        if array.dtype.name != spec.dtype or not fits:
            shape = ", ".join("any" if length is None else str(length) for length in spec.shape)
            found = ", ".join(str(length) for length in array.shape)
            raise BadTensor(f"input {name!r} is {spec.dtype} [{shape}], found {array.dtype.name} [{found}]")
