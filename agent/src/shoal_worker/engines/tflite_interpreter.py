"""How is a model run in the Python interpreter that LiteRT and tflite-runtime share?

Both packages have a class `Interpreter` of the same interface, which can't stop a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal_worker.engines import WholeInference, check_feeds, reason
from shoal_worker.errors import EngineFailed, ModelRefused
from shoal_worker.messages import TensorSpec
from shoal_worker.tensors import DTYPES

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

FORMATS = {"tflite": 1}
# Both names mean the same here: the processor's kernels compute in the model's own types.
PRECISIONS = ("exact", "fast")
CPU = "CPU"


class TfliteEngine:
    """An interpreter with its model. One run at a time."""

    devices: tuple[str, ...] = (CPU,)
    placement: tuple[str, ...] = (CPU,)
    plan = None

    def __init__(self, interpreter_class: Any, *, name: str, version: str, model: bytes, threads: int) -> None:
        """Make an interpreter of the class for the model.

        Raises:
            ModelRefused: it doesn't take the model, or the model has inputs or outputs that are no plain tensors.
        """
        self._name = name
        self.version = version
        try:
            self._interpreter = interpreter_class(model_content=model, num_threads=threads)
            self._interpreter.allocate_tensors()
        except (ValueError, RuntimeError) as error:
            raise ModelRefused(f"{name} doesn't take the model: {reason(error)}") from error
        inputs, outputs = self._interpreter.get_input_details(), self._interpreter.get_output_details()
        self.inputs = _signature(inputs)
        self.outputs = _signature(outputs)
        self._inputs = {details["name"]: details["index"] for details in inputs}
        self._outputs = {details["name"]: details["index"] for details in outputs}
        self._shapes = {details["name"]: tuple(map(int, details["shape"])) for details in inputs}

    def prepare(self, feeds: Mapping[str, Array]) -> WholeInference:
        """See `Engine.prepare`."""
        check_feeds(feeds, inputs=self.inputs)
        return WholeInference(self.compute, feeds)

    def compute(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs, in memory of their own.

        Raises:
            EngineFailed: the interpreter reports an error.
        """
        try:
            self._fit(feeds)
            for name, array in feeds.items():
                self._interpreter.set_tensor(self._inputs[name], array)
            self._interpreter.invoke()
            return {name: self._interpreter.get_tensor(index) for name, index in self._outputs.items()}
        except (ValueError, RuntimeError) as error:
            raise EngineFailed(f"{self._name} failed: {reason(error)}") from error

    def _fit(self, feeds: Mapping[str, Array]) -> None:
        """Resize inputs whose lengths vary, and plan the memory anew, only where a shape has changed."""
        changed = {name: array.shape for name, array in feeds.items() if array.shape != self._shapes[name]}
        for name, shape in changed.items():
            self._interpreter.resize_tensor_input(self._inputs[name], shape)
        if changed:
            # First, so that a shape that doesn't work is resized once more, and not taken for the present one.
            self._shapes.update(dict.fromkeys(changed, ()))
            self._interpreter.allocate_tensors()
            self._shapes.update(changed)


def _signature(tensors: Sequence[Mapping[str, Any]]) -> tuple[TensorSpec, ...]:
    specs = []
    for details in tensors:
        dtype = np.dtype(details["dtype"]).name
        if dtype not in DTYPES:
            raise ModelRefused(f"{details['name']!r} must be one of {', '.join(DTYPES)}; found {dtype}")
        # An empty signature stands for a shape in which nothing varies.
        shape = details["shape_signature"] if len(details["shape_signature"]) else details["shape"]
        lengths = tuple(None if length < 0 else int(length) for length in shape)
        specs.append(TensorSpec(name=details["name"], dtype=dtype, shape=lengths))
    return tuple(specs)
