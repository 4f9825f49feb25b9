"""How does ONNX Runtime load and run a model here?

Where it is asked for another device than the processor it may still give operators to the processor; how many went
where is asked for after loading. A version that can't tell must give them all to the device.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from shoal_worker.engines import check_device, check_feeds, check_precision, reason
from shoal_worker.errors import EngineFailed, EngineMissing, ModelRefused, RunCancelled
from shoal_worker.messages import Load, TensorSpec
from shoal_worker.onnx_file import find_external_file

# From 1.32 on it would report to its makers on Linux too, and makes an id for that when it is imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

FORMATS = {"onnx": 1}
CPU = "CPUExecutionProvider"
# Providers that may share a model, by the one that was asked for. What it can't run goes to the next.
PROVIDERS = {
    CPU: (CPU,),
    "CUDAExecutionProvider": ("CUDAExecutionProvider", CPU),
    "TensorrtExecutionProvider": ("TensorrtExecutionProvider", "CUDAExecutionProvider", CPU),
}
# Plans and timings that TensorRT would write beside the model hold its weights in plain: neither is written.
PROVIDER_OPTIONS = {
    "TensorrtExecutionProvider": {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"},
}
# Options by precision and provider. A GPU multiplies float32 in TF32 (10 bits of mantissa) unless it is told not to.
# The TensorRT provider has no option for that: NVIDIA's libraries are told by their own variable as well.
PROVIDER_PRECISIONS = {
    ("exact", "CUDAExecutionProvider"): {"use_tf32": "0"},
    ("fast", "TensorrtExecutionProvider"): {"trt_fp16_enable": "1"},
}
NO_TF32 = {"NVIDIA_TF32_OVERRIDE": "0"}
FATAL = 4  # log severity: what is wrong is reported over the channel, once

# Session options by precision. "fast" lets an Arm CPU multiply in bfloat16; other CPUs know no such shortcut.
PRECISIONS = {
    "exact": {},
    "fast": {"mlas.enable_gemm_fastmath_arm64_bfloat16": "1"},
}
DTYPES = {
    "tensor(bool)": "bool",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int16)": "int16",
    "tensor(uint16)": "uint16",
    "tensor(int32)": "int32",
    "tensor(uint32)": "uint32",
    "tensor(int64)": "int64",
    "tensor(uint64)": "uint64",
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
    "tensor(double)": "float64",
}


def load(request: Load, *, files: Sequence[bytes]) -> OnnxRuntimeEngine:
    """Load a model from its bytes.

    Raises:
        EngineMissing: this build has no provider of the name that was asked for, or couldn't start it.
        ModelRefused: ONNX Runtime doesn't take it, or it has inputs or outputs that are no plain tensors.
    """
    return load_by(onnxruntime, request, model=files[0])


def load_by(library: Any, request: Load, *, model: bytes) -> OnnxRuntimeEngine:
    """The same by a build of ONNX Runtime. For the whole process it settles whether a GPU may use TF32."""
    check_precision(request, known=tuple(PRECISIONS))
    devices = tuple(name for name in library.get_available_providers() if name in PROVIDERS)
    check_device(request, devices=devices)
    device = request.device or CPU
    if find_external_file(model):
        raise ModelRefused("onnxruntime would read weights from another file, which the model names")
    library.disable_telemetry_events()
    if device != CPU and request.precision == "exact":
        os.environ.update(NO_TF32)  # before the libraries are loaded, which the session does
    tells = device != CPU and hasattr(library.InferenceSession, "get_provider_graph_assignment_info")
    options = library.SessionOptions()
    _set_options(options, request, device=device, tells=tells)
    try:
        session = library.InferenceSession(model, options, providers=_providers(request, device=device, tells=tells))
    except Exception as error:  # its exceptions have no other base
        raise ModelRefused(f"onnxruntime doesn't take the model{_on(device)}: {reason(error)}") from error
    placement = _read_placement(session, device=device, tells=tells)
    return OnnxRuntimeEngine(session, library=library, placement=placement, devices=devices)


class OnnxRuntimeEngine:
    """A session. Several runs may be prepared; ONNX Runtime allows runs from several threads."""

    plan = None

    def __init__(self, session: Any, *, library: Any, placement: tuple[str, ...], devices: tuple[str, ...]) -> None:
        self._session = session
        self.version: str = library.__version__
        self.placement = placement
        self.devices = devices
        self.inputs = _signature(session.get_inputs())
        self.outputs = _signature(session.get_outputs())

    def prepare(self, feeds: Mapping[str, Array]) -> OnnxRuntimeInference:
        """See `Engine.prepare`."""
        check_feeds(feeds, inputs=self.inputs)
        return OnnxRuntimeInference(self._session, feeds=feeds, output_names=[spec.name for spec in self.outputs])


class OnnxRuntimeInference:
    """One run."""

    def __init__(self, session: Any, *, feeds: Mapping[str, Array], output_names: list[str]) -> None:
        self._session = session
        self._feeds = dict(feeds)
        self._output_names = output_names
        self._options = onnxruntime.RunOptions()
        self._options.log_severity_level = FATAL

    def run(self) -> dict[str, Array]:
        """See `Inference.run`. A cancel takes effect between two operators of the graph."""
        try:
            outputs = self._session.run(self._output_names, self._feeds, self._options)
        except Exception as error:  # its exceptions have no other base
            if self._options.terminate:
                raise RunCancelled("the run was cancelled") from error
            raise EngineFailed(f"onnxruntime failed: {reason(error)}") from error
        return dict(zip(self._output_names, outputs))

    def cancel(self) -> None:
        """See `Inference.cancel`."""
        self._options.terminate = True


def _on(device: str) -> str:
    return "" if device == CPU else f" on {device}"


def _providers(request: Load, *, device: str, tells: bool) -> list[tuple[str, dict[str, str]]]:
    """Those that may share the model, with their options. Where nobody could tell which got what, it is one alone."""
    names = PROVIDERS[device] if tells else (device,)
    return [
        (name, {**PROVIDER_OPTIONS.get(name, {}), **PROVIDER_PRECISIONS.get((request.precision, name), {})})
        for name in names
    ]


def _read_placement(session: Any, *, device: str, tells: bool) -> tuple[str, ...]:
    """Providers that really got a part of the model, the one with the most operators first.

    ONNX Runtime warns and takes the CPU where a provider can't start, and gives it whatever operators the provider
    doesn't know. A version that can't tell has refused the model by now if anybody else got any.

    Raises:
        EngineMissing: the provider that was asked for couldn't start.
        ModelRefused: it got no part of the model.
    """
    started = tuple(session.get_providers())
    if device not in started:
        raise EngineMissing(f"onnxruntime couldn't start {device}, it would run on {', '.join(started)}")
    if device == CPU:
        return started
    if not tells:
        return (device,)
    nodes: Counter[str] = Counter()
    for subgraph in session.get_provider_graph_assignment_info():
        nodes[subgraph.ep_name] += len(subgraph.get_nodes())
    if not nodes[device]:
        raise ModelRefused(f"{device} runs no operator of the model, all would run on {', '.join(nodes)}")
    return tuple(name for name, _ in nodes.most_common())


def _set_options(options: Any, request: Load, *, device: str, tells: bool) -> None:
    options.intra_op_num_threads = request.threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = request.memory_arena
    options.enable_mem_pattern = request.memory_arena
    options.log_severity_level = FATAL
    # Idle threads that spin take the cores from other workers and drain batteries.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if device != CPU:
        where = "session.record_ep_graph_assignment_info" if tells else "session.disable_cpu_ep_fallback"
        options.add_session_config_entry(where, "1")
    for key, value in PRECISIONS[request.precision].items():
        options.add_session_config_entry(key, value)


def _signature(arguments: Sequence[Any]) -> tuple[TensorSpec, ...]:
    for argument in arguments:
        if argument.type not in DTYPES:
            raise ModelRefused(f"{argument.name!r} must be one of {', '.join(DTYPES)}; found {argument.type}")
    return tuple(
        TensorSpec(
            name=argument.name,
            dtype=DTYPES[argument.type],
            # A name in place of a length, or nothing at all, stands for a length that varies.
            shape=tuple(length if isinstance(length, int) else None for length in argument.shape),
        )
        for argument in arguments
    )
