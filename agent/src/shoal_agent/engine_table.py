"""Which engines may run a format on this board, and in what order are they tried?

The one table of the agent; daemon and front both read it, so it imports no engine and no NumPy. What is here is looked
up by name only. Whether an engine works is for the probe to say (`shoal_agent.front.probe`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

ENGINES: Mapping[str, tuple[str, ...]] = {
    "onnx": ("onnxruntime", "openvino", "tensorrt"),
    "tflite": ("litert", "openvino", "tflite-runtime"),
    "openvino": ("openvino",),
    "tensorrt-plan": ("tensorrt",),
}
"""Engines by format, the one that is tried first where nothing was measured at the front."""

PLAN_ENGINES: Mapping[str, str] = {"onnx": "tensorrt"}
"""Engine that builds a plan for this board of a format, which takes minutes: the others serve until it is there."""

PATH_ENDINGS: Mapping[tuple[str, str], str] = {("openvino", "tflite"): ".tflite"}
"""Engine and format that it reads by a path only, and how that must end."""

LIBRARIES: Mapping[str, str] = {
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "tensorrt": "tensorrt",
    "litert": "ai_edge_litert",
    "tflite-runtime": "tflite_runtime",
}
"""Module that an engine's interpreter must have, by engine."""

ELSEWHERE: Mapping[str, str] = {
    "coreml": "coreml runs on Apple's macOS, iOS, tvOS and watchOS only: a Linux board needs an onnx or tflite variant",
}
"""Formats that a manifest may hold and that no board with this agent runs, each with a sentence that says where."""

PLUG_INS = "shoal.engines"
"""Entry-point group of other people's engines; an entry is named `<engine>.<format>`."""


@dataclass(frozen=True)
class Candidate:
    """An engine for a format. `module` must be found in the interpreter that runs the engine."""

    engine: str
    model_format: str
    module: str


def candidates() -> Iterator[Candidate]:
    """Every engine for every format: the table's, then those of plug-ins that are installed beside the agent."""
    for model_format, engines in ENGINES.items():
        for engine in engines:
            yield Candidate(engine, model_format, LIBRARIES[engine])
    for entry in sorted(metadata.entry_points(group=PLUG_INS), key=lambda entry: entry.name):
        engine, dot, model_format = entry.name.rpartition(".")
        if dot and engine not in LIBRARIES:
            yield Candidate(engine, model_format, entry.value)


def present(*, interpreters: Mapping[str, str], allowed: Collection[str] = ()) -> Iterator[Candidate]:
    """Candidates that may work here: configuration names an interpreter, or the agent's own has the module.

    `allowed`: engines that configuration allows; empty means all.
    """
    for candidate in candidates():
        if allowed and candidate.engine not in allowed:
            continue
        if candidate.engine in interpreters or find_spec(candidate.module.partition(".")[0]) is not None:
            yield candidate


def engines_for(
    model_format: str, *, interpreters: Mapping[str, str], allowed: Collection[str] = ()
) -> tuple[str, ...]:
    """Engines that may run the format here, in the order in which they are tried."""
    here = present(interpreters=interpreters, allowed=allowed)
    return tuple(candidate.engine for candidate in here if candidate.model_format == model_format)


def runnable_engines(*, interpreters: Mapping[str, str], allowed: Collection[str] = ()) -> dict[str, tuple[str, ...]]:
    """Engines that may run each format here, in the order in which they are tried, by format."""
    found: dict[str, tuple[str, ...]] = {}
    for candidate in present(interpreters=interpreters, allowed=allowed):
        found[candidate.model_format] = (*found.get(candidate.model_format, ()), candidate.engine)
    return found
