"""Which boards can run a model, in which engine, and why not? Rules only, but for `load_profiles`.

What an engine here doesn't load isn't loaded on a board either: it is the same library. What it takes here may still
lack something there: memory, a C library.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from shoal_agent.engine_table import ELSEWHERE, ENGINES
from shoal_agent.front.admission import predict_peak
from shoal_wire.device_profile import Architecture, DeviceProfile, Engine, parse_profile
from shoal_wire.errors import Malformed

from shoal_converters.errors import BadRecipe
from shoal_converters.inspection.facts import BoardVerdict, EngineRun, EngineVerdict, Facts
from shoal_converters.inspection.formats import KINDS
from shoal_converters.inspection.running import NOT_INSTALLED
from shoal_converters.paths import PATHS

MEMORY_SHARE = 0.75
"""Of a board's memory that a model may have: the rest is the system's, the agent's and the cameras'."""


class Obstacle(NamedTuple):
    """Why engines can't run a model that has a trait, or what to know if they can."""

    engines: tuple[str, ...]
    is_fatal: bool
    reason: str


OBSTACLES: Mapping[str, tuple[Obstacle, ...]] = {
    "external-files": (
        Obstacle(
            ("onnxruntime", "openvino", "tensorrt", "litert", "tflite-runtime"),
            True,
            "its weights lie in other files, a variant of this format is one file: save it with the weights inside",
        ),
    ),
    "incomplete": (Obstacle(("openvino",), True, "its weights are missing or cut short"),),
    "custom-operators": (
        Obstacle(
            ("litert", "tflite-runtime", "openvino"),
            True,
            "it has custom operators, which an engine has only where somebody adds them",
        ),
    ),
    "onnxruntime-operators": (
        Obstacle(("tensorrt",), True, "it has operators that only ONNX Runtime knows (com.microsoft)"),
        Obstacle(("openvino",), False, "of ONNX Runtime's own operators (com.microsoft) it knows some only"),
    ),
    "classical-operators": (
        Obstacle(("tensorrt", "openvino"), True, "it has operators of classical machine learning (ai.onnx.ml)"),
    ),
    "quantized-bias": (
        Obstacle(
            ("tensorrt",), True, "a bias is quantized to int32, which its parser refuses: make onnx-int8-tensorrt"
        ),
    ),
    "asymmetric-quantization": (
        Obstacle(("tensorrt",), True, "zero points aren't zero, which its parser refuses: make onnx-int8-tensorrt"),
    ),
    "integer-operators": (
        Obstacle(("tensorrt",), True, "it has integer operators (QLinearConv, …), which its parser doesn't know"),
    ),
    "dynamic-int8": (
        Obstacle(("tensorrt",), True, "it quantizes activations in each run, which its parser doesn't know"),
        Obstacle(("onnxruntime",), False, "dynamic INT8: its convolutions are several times slower than float ones"),
    ),
    "wrong-in-tflite-runtime": (
        Obstacle(("tflite-runtime",), True, "tflite-runtime 2.14 would compute wrong numbers without a word"),
    ),
    "float16-operators": (
        Obstacle(("onnxruntime",), False, "weights in float16: its CPU kernels mostly compute in float32, with casts"),
    ),
    "control-flow": (Obstacle(("tensorrt",), False, "it has branches or loops, which its parser takes in part only"),),
}
"""By the trait of a model."""

INSTALLATION: Mapping[tuple[Engine, Architecture], str] = {
    (Engine.OPENVINO, Architecture.AARCH64): "its wheels for aarch64 need glibc 2.35 or newer (Debian 12)",
    (Engine.TFLITE_RUNTIME, Architecture.AARCH64): "its wheels are for Python 3.11 with NumPy 1 at most",
    (Engine.TFLITE_RUNTIME, Architecture.X86_64): "its wheels are for Python 3.11 with NumPy 1 at most",
    (Engine.TENSORRT, Architecture.AARCH64): "it comes with the vendor's system, and builds a plan on the board",
}
"""What to know of an engine's installation."""


def load_profiles(folder: Path) -> tuple[DeviceProfile, ...]:
    """All device profiles of a folder, by name.

    Raises:
        BadRecipe: there is none, or one that can't be read.
    """
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise BadRecipe(f"{folder}: expected device profiles (*.toml), found none")
    try:
        return tuple(parse_profile(file.read_bytes()) for file in files)
    except (OSError, Malformed) as error:
        raise BadRecipe(f"{folder}: {error}") from None


def judge_boards(
    facts: Facts, profiles: Sequence[DeviceProfile], *, size_bytes: int, runs: Sequence[EngineRun]
) -> tuple[BoardVerdict, ...]:
    """What each board would make of a model. `runs`: what became of it in the engines here, if that was tried."""
    return tuple(_judge_board(facts, profile, size_bytes=size_bytes, runs=runs) for profile in profiles)


def _judge_board(facts: Facts, profile: DeviceProfile, *, size_bytes: int, runs: Sequence[EngineRun]) -> BoardVerdict:
    engines = tuple(_judge_engine(facts, profile, engine, runs=runs) for engine in profile.engines)
    needed = predict_peak(measured_bytes=0, file_bytes=[size_bytes]).needed_bytes
    enough = [size for size in profile.memory_bytes if needed <= size * MEMORY_SHARE]
    fits_memory = bool(enough) or not profile.memory_bytes
    return BoardVerdict(
        board=profile.name,
        fits=fits_memory and any(engine.fits for engine in engines),
        engines=engines,
        memory=_word_memory(needed, profile.memory_bytes, enough),
    )


def _judge_engine(facts: Facts, profile: DeviceProfile, engine: Engine, *, runs: Sequence[EngineRun]) -> EngineVerdict:
    name = engine.value
    if name not in ENGINES.get(facts.format, ()):
        return EngineVerdict(engine=name, fits=False, reasons=(_word_format(facts.format, name),))
    met = [obstacle for trait in facts.traits for obstacle in OBSTACLES.get(trait, ()) if name in obstacle.engines]
    fatal = [obstacle.reason for obstacle in met if obstacle.is_fatal]
    run = next((run for run in runs if run.engine == name and not run.reason.startswith(NOT_INSTALLED)), None)
    refused = [f"{name} {run.version}".strip() + " refuses it here"] if run is not None and not run.loads else []
    if refused or fatal:
        return EngineVerdict(engine=name, fits=False, reasons=(*fatal, *refused))
    notes = [obstacle.reason for obstacle in met]
    installation = INSTALLATION.get((engine, profile.architecture))
    if run is None:
        notes.append("it wasn't tried in this engine here")
    elif not run.answers:
        notes.append("it loads here, but didn't answer zeros")
    return EngineVerdict(engine=name, fits=True, reasons=(*notes, *([installation] if installation else [])))


def _word_format(model_format: str, engine: str) -> str:
    if model_format in ELSEWHERE:
        return ELSEWHERE[model_format]
    wanted = [name for name, engines in ENGINES.items() if engine in engines and name != "tensorrt-plan"]
    makes = [name for name in wanted if _leads_to(model_format, name)]
    ending = f": convert it to {' or '.join(makes)}" if makes else ""
    return f"it doesn't read {KINDS[model_format].partition(' (')[0]}{ending}"


def _leads_to(source: str, wanted: str) -> bool:
    """Whether the table of conversions leads from a source's format to one of an engine."""
    reached = {source}
    while True:
        more = {given for path in PATHS for given in path.gives if reached & set(path.takes)} - reached
        if not more:
            return any(name.startswith(f"{wanted}-") for name in reached)
        reached |= more


def _word_memory(needed: int, sizes: Sequence[int], enough: Sequence[int]) -> str:
    words = f"needs about {needed / 1e6:.0f} MB (estimated)"
    if not sizes:
        return words
    if not enough:
        return f"{words}: more than {MEMORY_SHARE:.0%} of the {max(sizes) / 2**30:.0f} GiB of the largest board"
    if len(enough) == len(sizes):
        return words
    return f"{words}: boards with {', '.join(f'{size / 2**30:.0f}' for size in enough)} GiB"
