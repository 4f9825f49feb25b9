"""How does TensorRT load and run a model here?

A plan is what TensorRT makes of a model for one GPU, one version of itself and one release of the board's software. It
runs plans, and builds one from an ONNX model where it gets that. Written after the Python API of TensorRT 8.5 to 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorrt

from shoal_worker.cuda_driver import CudaDriver
from shoal_worker.engines import WholeInference, check_device, check_feeds, check_precision
from shoal_worker.errors import EngineFailed, ModelRefused
from shoal_worker.messages import Load, TensorSpec
from shoal_worker.tensorrt_plan import PRECISIONS, build_plan

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

FORMATS = {"tensorrt-plan": 1, "onnx": 1}
DTYPES = {
    "BOOL": "bool",
    "INT8": "int8",
    "UINT8": "uint8",
    "INT32": "int32",
    "INT64": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
}


def load(request: Load, *, files: Sequence[bytes]) -> TensorRtEngine:
    """Load a plan, or build one from an ONNX model, which takes minutes, and load it.

    Raises:
        EngineMissing: no GPU that works.
        ModelRefused: TensorRT doesn't take the model, or the plan was built for another board or version.
    """
    check_precision(request, known=PRECISIONS)
    gpu = CudaDriver()
    check_device(request, devices=(gpu.describe(),))
    if request.format == "onnx":
        plan = build_plan(files[0], precision=request.precision, library=tensorrt)
        return TensorRtEngine(plan, library=tensorrt, gpu=gpu, is_new=True)
    return TensorRtEngine(files[0], library=tensorrt, gpu=gpu, is_new=False)


class TensorRtEngine:
    """A plan on the GPU, and memory for its tensors, which grows and is kept. One run at a time."""

    def __init__(self, plan: bytes, *, library: Any, gpu: CudaDriver, is_new: bool) -> None:
        """Load a plan.

        Raises:
            ModelRefused: it isn't a plan for this board and this TensorRT, or has tensors of a type that can't travel.
        """
        self.version: str = library.__version__
        self.devices = (gpu.describe(),)
        self.placement = self.devices
        self.plan = plan if is_new else None
        self._gpu = gpu
        self._logger = library.Logger(library.Logger.ERROR)
        self._runtime = library.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        if self._engine is None:
            raise ModelRefused(
                f"tensorrt {self.version} on {self.devices[0]} doesn't take the plan: "
                "built for another GPU, another version or another release of the board's software, or damaged"
            )
        names = [self._engine.get_tensor_name(index) for index in range(self._engine.num_io_tensors)]
        is_input = {name: self._engine.get_tensor_mode(name) == library.TensorIOMode.INPUT for name in names}
        self.inputs = tuple(self._spec(name) for name in names if is_input[name])
        self.outputs = tuple(self._spec(name) for name in names if not is_input[name])
        self._context = self._engine.create_execution_context()
        self._memory: dict[str, tuple[int, int]] = {}  # address and size in bytes, by tensor

    def prepare(self, feeds: Mapping[str, Array]) -> WholeInference:
        """See `Engine.prepare`."""
        check_feeds(feeds, inputs=self.inputs)
        return WholeInference(self.compute, feeds)

    def compute(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs, in memory of their own.

        Raises:
            EngineFailed: TensorRT or the driver reports an error, or a shape lies beyond what the plan was built for.
        """
        self._gpu.enter_thread()
        for name, array in feeds.items():
            if not self._context.set_input_shape(name, array.shape):
                raise EngineFailed(f"tensorrt failed: the plan wasn't built for input {name!r} of shape {array.shape}")
        # Kept until the copies are done.
        sources = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
        outputs = {spec.name: np.empty(self._output_shape(spec.name), spec.dtype) for spec in self.outputs}
        for name, array in {**sources, **outputs}.items():
            self._context.set_tensor_address(name, self._place(name, size_bytes=array.nbytes))
        for name, array in sources.items():
            self._gpu.copy_in(self._memory[name][0], array)
        if not self._context.execute_async_v3(self._gpu.stream):
            raise EngineFailed("tensorrt failed: the run couldn't be started")
        for name, array in outputs.items():
            self._gpu.copy_out(array, self._memory[name][0])
        self._gpu.wait()
        return outputs

    def _output_shape(self, name: str) -> tuple[int, ...]:
        shape = tuple(self._context.get_tensor_shape(name))
        if any(length < 0 for length in shape):
            raise EngineFailed(
                f"tensorrt failed: the shape of output {name!r} depends on the values of inputs: {shape}"
            )
        return shape

    def _place(self, name: str, *, size_bytes: int) -> int:
        """Memory for a tensor; larger memory takes its place where it has to grow."""
        address, present_bytes = self._memory.get(name, (0, 0))
        if name in self._memory and present_bytes >= size_bytes:
            return address
        if name in self._memory:
            del self._memory[name]
            self._gpu.free(address)
        address = self._gpu.allocate(size_bytes)
        self._memory[name] = (address, size_bytes)
        return address

    def _spec(self, name: str) -> TensorSpec:
        kind = self._engine.get_tensor_dtype(name).name
        if kind not in DTYPES:
            raise ModelRefused(f"{name!r} must be one of {', '.join(DTYPES)}; found {kind}")
        lengths = self._engine.get_tensor_shape(name)
        shape = tuple(None if length < 0 else int(length) for length in lengths)
        return TensorSpec(name=name, dtype=DTYPES[kind], shape=shape)
