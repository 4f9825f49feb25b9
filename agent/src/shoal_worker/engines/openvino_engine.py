"""How does OpenVINO load and run a model here?

Left to itself it computes in bfloat16 where the processor can, keeps its threads on fixed cores, reads files that an
ONNX model names, and reports its use to its makers. None of that happens here.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from shoal_worker.engines import check_device, check_feeds, check_precision, reason
from shoal_worker.errors import EngineFailed, ModelRefused, RunCancelled
from shoal_worker.memory import linked, seal_bytes
from shoal_worker.messages import Load, TensorSpec
from shoal_worker.onnx_file import find_external_file

# With None in its place, the package that reports over the network can't be imported by anybody.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
import openvino  # noqa: E402

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

FORMATS = {"onnx": 1, "tflite": 1, "openvino": 2}  # the intermediate representation: .xml, then .bin
CPU = "CPU"
# Types to compute float models in, the fastest first, by what a device says that it can.
PRECISIONS = {"exact": (), "fast": (("BF16", "bf16"), ("FP16", "f16"))}
EXACT = "f32"
DTYPES = {
    "boolean": "bool",
    "i8": "int8",
    "u8": "uint8",
    "i16": "int16",
    "u16": "uint16",
    "i32": "int32",
    "u32": "uint32",
    "i64": "int64",
    "u64": "uint64",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
}


def load(request: Load, *, files: Sequence[bytes]) -> OpenVinoEngine:
    """Load a model from the bytes of its files.

    Raises:
        EngineMissing: a device that OpenVINO doesn't list.
        ModelRefused: OpenVINO doesn't take the model, can't compute it as exactly as was asked, or the model has inputs
            or outputs that are no plain tensors.
    """
    return load_by(openvino.Core(), request, files=files)


def load_by(core: Any, request: Load, *, files: Sequence[bytes]) -> OpenVinoEngine:
    """The same by a core of OpenVINO, which lists its devices."""
    check_precision(request, known=tuple(PRECISIONS))
    core.set_property({"CACHE_DIR": ""})  # a cache of compiled models would hold weights in plain
    devices = tuple(core.available_devices)
    check_device(request, devices=devices)
    device = request.device or CPU
    if request.format == "onnx" and find_external_file(files[0]):
        raise ModelRefused("openvino would read weights from another file, which the model names")
    try:
        with _readable(request.format, files, path=request.path) as readable:
            model = core.read_model(*readable)
            names = _Names(_list_names(model.inputs), _list_names(model.outputs))
            compiled = core.compile_model(model, device, _properties(core, request, device=device))
    except Exception as error:  # whatever its bindings translate
        raise ModelRefused(f"openvino doesn't take the model: {reason(error)}") from error
    _check_exactness(compiled, request, device=device)
    return OpenVinoEngine(compiled, names=names, devices=devices)


class _Names(NamedTuple):
    """Of a model's tensors, as its file has them: compiling adds those of operators that it takes away."""

    inputs: Sequence[str]
    outputs: Sequence[str]


class OpenVinoEngine:
    """A compiled model with the one request that its runs use in turn."""

    plan = None

    def __init__(self, compiled: openvino.CompiledModel, *, names: _Names, devices: tuple[str, ...]) -> None:
        self.version: str = openvino.__version__.partition("-")[0]  # without number and digest of the build
        self.devices = devices
        self.placement: tuple[str, ...] = tuple(compiled.get_property("EXECUTION_DEVICES"))
        self.inputs = _signature(compiled.inputs, names=names.inputs)
        self.outputs = _signature(compiled.outputs, names=names.outputs)
        self._request = compiled.create_infer_request()

    def prepare(self, feeds: Mapping[str, Array]) -> OpenVinoInference:
        """See `Engine.prepare`."""
        check_feeds(feeds, inputs=self.inputs)
        arrays = {index: feeds[spec.name] for index, spec in enumerate(self.inputs)}
        return OpenVinoInference(self._request, arrays=arrays, output_names=[spec.name for spec in self.outputs])


class OpenVinoInference:
    """One run."""

    def __init__(
        self, request: openvino.InferRequest, *, arrays: Mapping[int, Array], output_names: Sequence[str]
    ) -> None:
        self._request = request
        self._arrays = dict(arrays)
        self._output_names = output_names
        self._lock = threading.Lock()
        self._is_cancelled = False

    def run(self) -> dict[str, Array]:
        """See `Inference.run`. A cancel takes effect between two operators of the graph."""
        with self._lock:  # a cancel comes either before the start or after it
            if self._is_cancelled:
                raise RunCancelled("the run was cancelled before it started")
            self._start()
        try:
            self._request.wait()  # only a run that was started this way can be stopped
        except Exception as error:  # whatever its bindings translate
            if self._is_cancelled:
                raise RunCancelled("the run was cancelled") from error
            raise EngineFailed(f"openvino failed: {reason(error)}") from error
        return {name: self._request.get_output_tensor(index).data for index, name in enumerate(self._output_names)}

    def cancel(self) -> None:
        """See `Inference.cancel`."""
        with self._lock:
            self._is_cancelled = True
            self._request.cancel()

    def _start(self) -> None:
        try:
            self._request.start_async(self._arrays, share_inputs=True)
        except Exception as error:  # shapes that don't fit each other are found here
            raise EngineFailed(f"openvino failed: {reason(error)}") from error


@contextmanager
def _readable(model_format: str, files: Sequence[bytes], *, path: str) -> Iterator[tuple[Any, ...]]:
    """What `Core.read_model` takes for this format, good for as long as the block lasts."""
    if model_format == "openvino":
        description, weights = files
        yield (description, openvino.Tensor(np.frombuffer(weights, np.uint8)) if weights else b"")
    elif model_format == "tflite":
        # From bytes, OpenVINO takes no TFLite file. A worker can't make itself a path: its front made one.
        with nullcontext(path) if path else _own_path(files[0]) as readable:
            yield (readable,)
    else:
        yield (files[0],)


@contextmanager
def _own_path(model: bytes) -> Iterator[str]:
    """A path that ends in .tflite and leads to memory."""
    fd = seal_bytes(model)
    try:
        with linked(fd, ending=".tflite") as path:
            yield path
    finally:
        os.close(fd)


def _properties(core: openvino.Core, request: Load, *, device: str) -> dict[str, Any]:
    supported = core.get_property(device, "SUPPORTED_PROPERTIES")
    capabilities = core.get_property(device, "OPTIMIZATION_CAPABILITIES")
    faster = [name for capability, name in PRECISIONS[request.precision] if capability in capabilities]
    wanted: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": request.threads,
        # Several workers would all be pinned to the first cores.
        "ENABLE_CPU_PINNING": False,
        "INFERENCE_PRECISION_HINT": (faster or [EXACT])[0],
    }
    if request.precision == "exact":
        wanted["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = 0  # else compressed weights meet activations of 8 bits
    return {name: value for name, value in wanted.items() if name in supported}


def _check_exactness(compiled: openvino.CompiledModel, request: Load, *, device: str) -> None:
    if request.precision != "exact":
        return
    name = "INFERENCE_PRECISION_HINT"
    has_hint = name in compiled.get_property("SUPPORTED_PROPERTIES")
    found = compiled.get_property(name).get_type_name() if has_hint else "a type that it doesn't tell"
    if found != EXACT:
        raise ModelRefused(f"precision exact needs {EXACT}, {device} computes in {found}; ask for fast")


def _list_names(ports: Sequence[Any]) -> list[str]:
    return [min(port.get_names(), default=f"{index}") for index, port in enumerate(ports)]


def _signature(ports: Sequence[Any], *, names: Sequence[str]) -> tuple[TensorSpec, ...]:
    specs = []
    for name, port in zip(names, ports, strict=True):
        kind = port.get_element_type().get_type_name()
        if kind not in DTYPES or port.partial_shape.rank.is_dynamic:
            found = f"{kind} {port.partial_shape}"
            raise ModelRefused(f"{name!r} must have a fixed rank and be one of {', '.join(DTYPES)}; found {found}")
        shape = tuple(dimension.get_length() if dimension.is_static else None for dimension in port.partial_shape)
        specs.append(TensorSpec(name=name, dtype=DTYPES[kind], shape=shape))
    return tuple(specs)
