"""How does ONNX Runtime load and run a model here?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnxruntime

from shoal_worker.engines import check_feeds
from shoal_worker.errors import EngineFailed, ModelRefused, RunCancelled
from shoal_worker.messages import Load, TensorSpec

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

FORMATS = ("onnx",)
PROVIDERS = ("CPUExecutionProvider",)
MAX_REASON = 500  # characters of the engine's own message
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


def load(request: Load, *, model: bytes) -> OnnxRuntimeEngine:
    """Load a model from its bytes.

    Raises:
        ModelRefused: ONNX Runtime doesn't take it, or it has inputs or outputs that are no plain tensors.
    """
    if request.precision not in PRECISIONS:
        raise ModelRefused(f"precision must be one of {', '.join(PRECISIONS)}; found {request.precision!r}")
    onnxruntime.disable_telemetry_events()
    try:
        session = onnxruntime.InferenceSession(model, _session_options(request), providers=PROVIDERS)
    except Exception as error:  # its exceptions have no other base
        raise ModelRefused(f"onnxruntime doesn't take the model: {_reason(error)}") from error
    return OnnxRuntimeEngine(session)


class OnnxRuntimeEngine:
    """A session. Several runs may be prepared; ONNX Runtime allows runs from several threads."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self._session = session
        self.version: str = onnxruntime.__version__
        self.placement: tuple[str, ...] = tuple(session.get_providers())
        self.inputs = _signature(session.get_inputs())
        self.outputs = _signature(session.get_outputs())

    def prepare(self, feeds: Mapping[str, Array]) -> OnnxRuntimeInference:
        """See `Engine.prepare`."""
        check_feeds(feeds, inputs=self.inputs)
        return OnnxRuntimeInference(self._session, feeds=feeds, output_names=[spec.name for spec in self.outputs])


class OnnxRuntimeInference:
    """One run."""

    def __init__(
        self, session: onnxruntime.InferenceSession, *, feeds: Mapping[str, Array], output_names: list[str]
    ) -> None:
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
            raise EngineFailed(f"onnxruntime failed: {_reason(error)}") from error
        return dict(zip(self._output_names, outputs))

    def cancel(self) -> None:
        """See `Inference.cancel`."""
        self._options.terminate = True


def _reason(error: Exception) -> str:
    return str(error).strip()[:MAX_REASON]


def _session_options(request: Load) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = request.threads
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = request.memory_arena
    options.enable_mem_pattern = request.memory_arena
    options.log_severity_level = FATAL
    # Idle threads that spin take the cores from other workers and drain batteries.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    for key, value in PRECISIONS[request.precision].items():
        options.add_session_config_entry(key, value)
    return options


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
