"""What stands in for a build of ONNX Runtime with NVIDIA's providers where there is no GPU?

`FakeOnnxRuntime` has what the adapter uses of the module, by the same names, and records which providers and options a
session is asked for. Models are really run, by the installed ONNX Runtime on the processor; which provider got how many
operators is made up. What it refuses, and in which words, is what the installed one was seen to do with a provider that
gets no operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import onnxruntime

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
TENSORRT = "TensorrtExecutionProvider"
INSTALLED = onnxruntime.InferenceSession  # where the module's own is about to become the fake's
NO_FALLBACK = "session.disable_cpu_ep_fallback"
RECORDS = "session.record_ep_graph_assignment_info"


class Subgraph(NamedTuple):
    """As `OrtEpAssignedSubgraph`."""

    ep_name: str
    nodes: int

    def get_nodes(self) -> list[str]:
        return [""] * self.nodes


class FakeOnnxRuntime:
    """A build with the providers, and a GPU that takes as many `operators` of a model as are said."""

    __version__ = "1.24.0"
    SessionOptions = onnxruntime.SessionOptions

    def __init__(self, *, operators: Mapping[str, int], starts: bool = True, tells: bool = True) -> None:
        """`starts`: whether the providers can; `tells`: whether the version knows who got which operators."""
        self.operators = operators
        self.starts = starts
        self.providers: dict[str, dict[str, str]] = {}
        """Of the last session, as it was asked for, with their options."""
        self.InferenceSession = type("InferenceSession", (TellingSession if tells else FakeSession,), {"library": self})

    def get_available_providers(self) -> list[str]:
        return [TENSORRT, CUDA, CPU]

    def disable_telemetry_events(self) -> None:
        """There is nobody to tell."""


class FakeSession:
    """A session of a version that doesn't say who got which operators."""

    library: FakeOnnxRuntime

    def __init__(self, model: bytes, options: Any, providers: Sequence[tuple[str, dict[str, str]]]) -> None:
        self.library.providers = dict(providers)
        self._records = _entry(options, RECORDS)
        if _entry(options, NO_FALLBACK):
            if CPU in self.library.providers:
                raise RuntimeError("Conflicting session configuration: explicitly added the CPU EP to the session")
            if CPU in self.library.operators:
                raise RuntimeError("This session contains graph nodes that are assigned to the default CPU EP")
        self._session = INSTALLED(model, providers=[CPU])

    def get_providers(self) -> list[str]:
        return [*(name for name in self.library.providers if name != CPU and self.library.starts), CPU]

    def __getattr__(self, name: str) -> Any:
        if name not in ("run", "get_inputs", "get_outputs"):
            raise AttributeError(name)
        return getattr(self._session, name)


class TellingSession(FakeSession):
    """One of a version that says so, if it was asked to before."""

    def get_provider_graph_assignment_info(self) -> list[Subgraph]:
        return [Subgraph(*one) for one in self.library.operators.items()] if self._records else []


def _entry(options: Any, key: str) -> bool:
    try:
        return bool(options.get_session_config_entry(key) == "1")
    except RuntimeError:  # it has none
        return False
