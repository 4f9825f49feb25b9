"""What stands in for OpenVINO's core on a board with a GPU or an NPU?

`FakeOpenVinoCore` lists one device beside the processor and records what a model is compiled for. Models are really
compiled and run, by the installed OpenVINO on the processor; what is told of the device is made up, in the words that
OpenVINO's documentation has for such a device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import openvino
from shoal_worker.engines import openvino_engine  # before openvino: it keeps that from reporting

MUTABLE = ("PERFORMANCE_HINT", "NUM_STREAMS", "INFERENCE_PRECISION_HINT", "DYNAMIC_QUANTIZATION_GROUP_SIZE")
"""Properties of the device, of those that the adapter knows."""
CPU = openvino_engine.CPU


class FakeOpenVinoCore:
    """A core; `types` are what its device says that it can, `computes` what it computes in whatever it is told."""

    def __init__(self, device: str, *, placement: Sequence[str], types: Sequence[str], computes: str = "") -> None:
        self._core = openvino.Core()
        self._device = device
        self._placement = list(placement)
        self._types = list(types)
        self._computes = computes
        self.asked: tuple[str, dict[str, Any]] = ("", {})
        """The device that the last model was compiled for, and with which properties."""
        self.compiled: Any = None

    @property
    def available_devices(self) -> list[str]:
        return [CPU, self._device]

    def set_property(self, properties: Mapping[str, Any]) -> None:
        self._core.set_property(properties)

    def get_property(self, device: str, name: str) -> Any:
        if device == CPU:
            return self._core.get_property(device, name)
        return {"SUPPORTED_PROPERTIES": MUTABLE, "OPTIMIZATION_CAPABILITIES": self._types}[name]

    def read_model(self, *parts: Any) -> Any:
        return self._core.read_model(*parts)

    def compile_model(self, model: Any, device: str, properties: dict[str, Any]) -> Any:
        self.asked = device, dict(properties)
        self.compiled = self._core.compile_model(model, CPU, properties if device == CPU else {})
        if device == CPU:
            return self.compiled
        computes = self._computes or properties["INFERENCE_PRECISION_HINT"]
        told = {"EXECUTION_DEVICES": self._placement, "INFERENCE_PRECISION_HINT": Type(computes)}
        return CompiledElsewhere(self.compiled, told=told)


class Type(str):
    """As OpenVINO's own."""

    def get_type_name(self) -> str:
        return str(self)


class CompiledElsewhere:
    """A compiled model that tells of another device."""

    def __init__(self, compiled: Any, *, told: Mapping[str, Any]) -> None:
        self._compiled = compiled
        self._told = told

    def get_property(self, name: str) -> Any:
        return list(MUTABLE) if name == "SUPPORTED_PROPERTIES" else self._told[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._compiled, name)
