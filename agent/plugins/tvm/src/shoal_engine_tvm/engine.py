"""How does Apache TVM load and run a model here?

It compiles an ONNX model in memory for the processor, for fixed lengths of the inputs: those that vary are taken as 1
at first, and other lengths are compiled for when they come, which takes seconds. Untuned, as here, it is mostly slower
than the engines that the agent has; it is tried last, and the measuring decides.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx
from shoal_worker.engines import WholeInference, check_device, check_feeds, check_precision, reason
from shoal_worker.errors import EngineFailed, EngineMissing, ModelRefused
from shoal_worker.messages import Load, TensorSpec
from shoal_worker.onnx_file import find_external_file
from shoal_worker.tensors import DTYPES

from shoal_engine_tvm.constants import fix_shapes, fold_constants

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]
    Shapes = tuple[tuple[int, ...], ...]

FORMATS = {"onnx": 1}
PRECISIONS = ("exact",)
CPU = "llvm"
MAX_COMPILED = 8  # sets of lengths that are kept


def load(request: Load, *, files: Sequence[bytes]) -> TvmEngine:
    """Compile a model from its bytes.

    Raises:
        EngineMissing: TVM isn't here, was built without LLVM, or was asked for another device than the processor.
        ModelRefused: TVM doesn't take it.
    """
    check_precision(request, known=PRECISIONS)
    check_device(request, devices=(CPU,))
    os.environ["TVM_NUM_THREADS"] = str(request.threads)  # read once, when its threads are made
    import tvm

    if tvm.support.libinfo().get("USE_LLVM", "OFF") == "OFF":
        raise EngineMissing(f"apache-tvm {tvm.__version__} was built without LLVM: it can't compile for a processor")
    if find_external_file(files[0]):
        raise ModelRefused("tvm doesn't take the model: it has weights in another file")
    try:
        model = onnx.load_from_string(files[0])
        onnx.checker.check_model(model)
        engine = TvmEngine(model, library=tvm)
        engine.compile(tuple(tuple(1 if n is None else n for n in spec.shape) for spec in engine.inputs))
    except ModelRefused:
        raise
    except Exception as error:  # its importer and compiler raise whatever Python has
        raise ModelRefused(f"tvm doesn't take the model: {reason(error)}") from error
    return engine


class TvmEngine:
    """A model, compiled for each set of lengths that came. One run at a time."""

    devices: tuple[str, ...] = (CPU,)
    placement: tuple[str, ...] = (CPU,)
    plan = None

    def __init__(self, model: onnx.ModelProto, *, library: Any) -> None:
        constants = {tensor.name for tensor in model.graph.initializer}
        self.version: str = library.__version__
        self.inputs = _signature([value for value in model.graph.input if value.name not in constants])
        self.outputs = _signature(model.graph.output)
        self._model = model
        self._library = library
        self._compiled: dict[Shapes, Callable[..., Any]] = {}

    def prepare(self, feeds: Mapping[str, Array]) -> WholeInference:
        """See `Engine.prepare`."""
        check_feeds(feeds, inputs=self.inputs)
        return WholeInference(self.compute, feeds)

    def compile(self, shapes: Shapes) -> Callable[..., Any]:
        """The compiled model for inputs of these shapes, in order. What was used least lately makes room."""
        function = self._compiled.pop(shapes, None) or self._compile(shapes)
        self._compiled[shapes] = function
        if len(self._compiled) > MAX_COMPILED:
            self._compiled.pop(next(iter(self._compiled)))
        return function

    def compute(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs, in memory of their own.

        Raises:
            EngineFailed: TVM reports an error.
        """
        arrays = [feeds[spec.name] for spec in self.inputs]
        try:
            function = self.compile(tuple(array.shape for array in arrays))
            result = function(*(self._library.runtime.tensor(array) for array in arrays))
            tensors = [result] if len(self.outputs) == 1 else list(result)
            return {spec.name: tensor.numpy() for spec, tensor in zip(self.outputs, tensors, strict=True)}
        except Exception as error:  # its importer and compiler raise whatever Python has
            raise EngineFailed(f"tvm failed: {reason(error)}") from error

    def _compile(self, shapes: Shapes) -> Callable[..., Any]:
        from tvm.relax.frontend.onnx import from_onnx

        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        fix_shapes(model, {spec.name: shape for spec, shape in zip(self.inputs, shapes, strict=True)})
        fold_constants(model)
        executable = self._library.compile(from_onnx(model), target=CPU)
        machine = self._library.relax.VirtualMachine(executable, self._library.cpu())
        function: Callable[..., Any] = machine["main"]
        return function


def _signature(values: Sequence[onnx.ValueInfoProto]) -> tuple[TensorSpec, ...]:
    specs = []
    for value in values:
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name if kind.elem_type else "no tensor"
        if dtype not in DTYPES:
            raise ModelRefused(f"{value.name!r} must be one of {', '.join(DTYPES)}; found {dtype}")
        shape = tuple(length.dim_value if length.HasField("dim_value") else None for length in kind.shape.dim)
        specs.append(TensorSpec(name=value.name, dtype=dtype, shape=shape))
    return tuple(specs)
