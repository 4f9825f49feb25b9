"""What is in the folder of each of the four releases, and does each keep what it promises?

Each has the network in three forms, for three kinds of engines: as its makers give it for TFLite and for ONNX, and as
OpenVINO's converter makes it of the latter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace
from shoal_agent.front.operations.notes import name_pitch
from shoal_wire.manifest import Accuracy, DraftFile, GoldenCase, Model, ReleaseDraft, Tensor, Variant
from shoal_wire.tuning import Candidate

from shoal_converters.errors import BuildFailed
from shoal_converters.note_events.damage import WEIGHTS, damage
from shoal_converters.note_events.evaluation import Measured, Network, PlayedSound, measure, play
from shoal_converters.note_events.fetch import NOTE_EVENTS, NOTE_EVENTS_TFLITE, NetworkFiles
from shoal_converters.note_events.recipes import (
    BETTER,
    CONTOUR_OUTPUT,
    DAMAGED,
    FIRST,
    FRAME_OUTPUT,
    FRAMES,
    INPUT,
    LOWEST_PITCH,
    ONSET_OUTPUT,
    ONSET_TOLERANCE_S,
    PITCHES,
    SLOW,
    WINDOW_SAMPLES,
    Recipe,
    compare_notes,
)
from shoal_converters.openvino_ir import convert_onnx
from shoal_converters.recorded_outputs import ROLE, add_reference_outputs
from shoal_converters.release_folder import write_release
from shoal_converters.spread import Judged, choose_tolerance, judge_golden_cases, list_runs

NAME = "note-events"
TFLITE_FILE, ONNX_FILE, XML_FILE, WEIGHTS_FILE = "nmp.tflite", "nmp.onnx", "nmp.xml", "nmp.bin"
MEASURED_VARIANT = "onnx-fp32"
VARIANTS = {
    "openvino-fp32": ("openvino", (XML_FILE, WEIGHTS_FILE)),
    "tflite-fp32": ("tflite", (TFLITE_FILE,)),
    MEASURED_VARIANT: ("onnx", (ONNX_FILE,)),
}
"""Format and files of each variant. A board takes the first that it reads, and OpenVINO reads all of them."""
DAMAGED_FILES = (TFLITE_FILE, ONNX_FILE, WEIGHTS_FILE)

GOLDEN_SEEDS = (9_001, 9_002)
HELD_OUT_SEEDS = range(5_000, 5_040)
"""The thresholds were chosen on seeds 1,000 to 1,039, which are in neither."""

SLOW_HELD_OUT = 2
"""Release 3 is measured on the first few only: its windows take ten times as long."""

RECORDED_CALLS = 1
"""Windows of each golden sound of which outputs go into the releases: all of them would be as large as the network."""

MARGIN_F1 = 0.1
"""Below the lowest F1 that was seen, for engines and processors that were not: one or two notes of a golden sound."""
LEAST_MINIMUM_F1 = 0.5


@dataclass(frozen=True, kw_only=True)
class BuiltRelease:
    """A written release folder, and the accuracy that it promises."""

    version: int
    folder: Path
    variants: tuple[str, ...]
    mean_f1: float
    lowest_f1: float
    samples: int
    golden_passed: bool
    golden_runs: int
    """By how many engines, over all variants and precisions, each golden case was run."""


def build_releases(network: NetworkFiles, *, out: Path, on_built: Callable[[BuiltRelease], None]) -> None:
    """Measure, check and write `release-1` to `release-4` under `out`, replacing those that are there.

    Raises:
        BuildFailed: an engine hears a golden sound wrongly, or one with the damaged weights rightly.
    """
    golden = [play(seed) for seed in GOLDEN_SEEDS]
    contents = {_golden_name(sound): sound.wav for sound in golden} | _make_model_files(network)
    models = [_model(recipe, golden=golden) for recipe in (FIRST, BETTER, SLOW)]
    runs = list_runs(models[0])
    judged = judge_golden_cases(models[:2], contents, runs=runs, kept_calls=RECORDED_CALLS)
    judged += judge_golden_cases(models[2:], contents, runs=_usual(runs), kept_calls=RECORDED_CALLS)
    accuracies = _measure(network.onnx)
    promised = [_promise(*each) for each in zip(models, judged, accuracies, strict=True)]
    recorded = [add_reference_outputs(*each, same=(tuple(VARIANTS),)) for each in zip(promised, judged, strict=True)]
    damaged = contents | {name: damage(contents[name], what=name) for name in DAMAGED_FILES}
    refused = _check_damaged(promised[1], damaged, runs=[run for run in runs if run.precision == "exact"])

    def write(recipe: Recipe, *, like: int, files: Mapping[str, bytes], runs: int) -> None:
        folder, (model, outputs) = out / f"release-{recipe.version}", recorded[like]
        write_release(_draft(recipe, model), {**files, **outputs}, folder=folder)
        on_built(_describe(recipe, accuracies[like], folder=folder, runs=runs))

    for like, recipe in enumerate((FIRST, BETTER, SLOW)):
        write(recipe, like=like, files=contents, runs=len(judged[like]))
    write(DAMAGED, like=1, files=damaged, runs=refused)


def _make_model_files(network: NetworkFiles) -> dict[str, bytes]:
    converted = convert_onnx(network.onnx)
    return {
        TFLITE_FILE: network.tflite,
        ONNX_FILE: network.onnx,
        XML_FILE: converted.xml,
        WEIGHTS_FILE: converted.weights,
    }


def _measure(onnx: bytes) -> tuple[Measured, Measured, Measured]:
    """F1 on held-out sounds of the first three releases."""
    network, comparison = Network(onnx), compare_notes(0.0)
    sounds = [play(seed) for seed in HELD_OUT_SEEDS]
    fast = [recipe.pipeline for recipe in (FIRST, BETTER)]
    first, better = measure(sounds, network=network, pipelines=fast, comparison=comparison)
    slow_sounds = sounds[:SLOW_HELD_OUT]
    (slow,) = measure(slow_sounds, network=network, pipelines=[SLOW.pipeline], comparison=comparison)
    return first, better, slow


def _usual(runs: Sequence[Candidate]) -> list[Candidate]:
    """The first run of each variant: windows that overlap more take ten times as long, and are the same computation."""
    return list({run.variant: run for run in reversed(runs)}.values())


def _check_damaged(model: Model, contents: Mapping[str, bytes], *, runs: Sequence[Candidate]) -> int:
    """Make sure that every golden case refuses the damaged network in every engine, and give the number of engines."""
    (judged,) = judge_golden_cases([model], contents, runs=runs)
    for one in judged:
        for verdict in one.verdicts:
            if verdict.passed:
                raise BuildFailed(f"release {DAMAGED.version}: a golden case passed {one.words}: {verdict.words}")
    return len(judged)


def _model(recipe: Recipe, *, golden: Sequence[PlayedSound]) -> Model:
    """A model that promises nothing yet."""
    note_shape = (-1, FRAMES, PITCHES)
    return Model(
        name=NAME,
        task="note events",
        inputs=(Tensor(INPUT, "float32", (-1, WINDOW_SAMPLES, 1)),),
        outputs=(
            Tensor(ONSET_OUTPUT, "float32", note_shape),
            Tensor(FRAME_OUTPUT, "float32", note_shape),
            Tensor(CONTOUR_OUTPUT, "float32", (-1, FRAMES, 3 * PITCHES)),
        ),
        pre=recipe.pre,
        post=recipe.post,
        labels=tuple(name_pitch(LOWEST_PITCH + step) for step in range(PITCHES)),
        variants=tuple(
            Variant(name=name, format=model_format, precision="fp32", files=files)
            for name, (model_format, files) in VARIANTS.items()
        ),
        golden=tuple(
            GoldenCase(
                name=f"sound-{sound.seed}",
                file=_golden_name(sound),
                expected=sound.expected,
                comparison=compare_notes(0.0),
                source=(
                    "Expected notes: the score that the sound was synthesised from. "
                    f"Onset tolerance {ONSET_TOLERANCE_S:g} s: Bay, Ehmann and Downie, ISMIR 2009."
                ),
            )
            for sound in golden
        ),
    )


def _promise(draft: Model, judged: Sequence[Judged], measured: Measured) -> Model:
    """The model with what was measured: accuracies, and the tolerances of its golden cases."""
    cases = []
    for place, case in enumerate(draft.golden):
        tolerance = choose_tolerance(judged, case=place, margin=MARGIN_F1, score="F1", least=LEAST_MINIMUM_F1)
        comparison, source = compare_notes(tolerance.minimum), f"{case.source} {tolerance.source}"
        cases.append(replace(case, comparison=comparison, source=source))
    variants = tuple(
        replace(variant, accuracy=_accuracy(variant, judged, measured=measured)) for variant in draft.variants
    )
    return replace(draft, golden=tuple(cases), variants=variants)


def _accuracy(variant: Variant, judged: Sequence[Judged], *, measured: Measured) -> tuple[Accuracy, ...]:
    """Of one form on held-out sounds; of the others, which are the same network, on the golden sounds only."""
    if variant.name == MEASURED_VARIANT:
        samples = len(measured.scores)
        dataset = f"{samples} synthesised sounds, seeds {HELD_OUT_SEEDS.start} to {HELD_OUT_SEEDS.start + samples - 1}"
        return (
            Accuracy("mean onset F1", round(measured.mean, 4), dataset, samples),
            Accuracy("lowest onset F1", round(measured.lowest, 4), dataset, samples),
        )
    scores = [verdict.score for one in judged if one.candidate.variant == variant.name for verdict in one.verdicts]
    return (Accuracy("lowest onset F1", round(min(scores), 4), "the golden sounds, in each engine", len(scores)),)


def _draft(recipe: Recipe, model: Model) -> ReleaseDraft:
    model_files = [DraftFile(name=name, role="model", path=name) for one in model.variants for name in one.files]
    golden_files = [DraftFile(name=case.file, role="golden", path=case.file) for case in model.golden]
    golden_files += [
        DraftFile(name=one.file, role=ROLE, path=one.file) for case in model.golden for one in case.outputs
    ]
    return ReleaseDraft(
        name=NAME,
        version=recipe.version,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        licence="Apache-2.0 (basic-pitch, Spotify)",
        provenance=_describe_provenance(recipe),
        models=(model,),
        files=(*model_files, *golden_files),
    )


def _describe(recipe: Recipe, measured: Measured, *, folder: Path, runs: int) -> BuiltRelease:
    return BuiltRelease(
        version=recipe.version,
        folder=folder,
        variants=tuple(VARIANTS),
        mean_f1=measured.mean,
        lowest_f1=measured.lowest,
        samples=len(measured.scores),
        golden_passed=not recipe.is_damaged,
        golden_runs=runs,
    )


def _describe_provenance(recipe: Recipe) -> str:
    text = (
        f"Network {ONNX_FILE} (SHA-256 {NOTE_EVENTS.member_sha256}) and {TFLITE_FILE} (SHA-256 "
        f"{NOTE_EVENTS_TFLITE.member_sha256}) from the wheel {NOTE_EVENTS.wheel} (SHA-256 {NOTE_EVENTS.wheel_sha256}); "
        f"{XML_FILE} and {WEIGHTS_FILE} by OpenVINO's converter from {ONNX_FILE}. Golden sounds and evaluation sounds: "
        "synthesised from known scores."
    )
    if recipe.is_damaged:
        text += f" In each form the signs of {len(WEIGHTS)} weights were turned on purpose after measuring."
    return text


def _golden_name(sound: PlayedSound) -> str:
    return f"golden-{sound.seed}.wav"
