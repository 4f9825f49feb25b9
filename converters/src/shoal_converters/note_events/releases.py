"""Which four releases does the example have, and what is in the folder of each?

1. Post-processing with low thresholds: hears notes that were not played.
2. Better thresholds; the same network and golden sounds, byte for byte.
3. As 2, with windows that overlap so far that a sound needs about ten times as many: right, but slow.
4. As 2, with weights damaged after its accuracy was measured: the golden cases must refuse it.
"""

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from shoal_agent.front.operations.notes import name_pitch
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_wire.encoding import encode
from shoal_wire.manifest import Accuracy, DraftFile, GoldenCase, Model, Operation, ReleaseDraft, Tensor, Variant

from shoal_converters.errors import BuildFailed
from shoal_converters.note_events.evaluation import Measured, Network, PlayedSound, hear, judge, measure, play
from shoal_converters.note_events.fetch import NOTE_EVENTS

NAME = "note-events"
MODEL_FILE = "nmp.onnx"
WINDOW_SAMPLES = 43_844
FRAME_SAMPLES = 256
FRAMES = 172
LOWEST_PITCH = 21
PITCHES = 88
INPUT = "serving_default_input_2:0"
FRAME_OUTPUT = "StatefulPartitionedCall:1"
ONSET_OUTPUT = "StatefulPartitionedCall:2"
CONTOUR_OUTPUT = "StatefulPartitionedCall:0"
"""Found by experiment: a held tone keeps :1 high until it ends and :2 only where it begins."""

ONSET_TOLERANCE_S = 0.05
GOLDEN_SEEDS = (9_001, 9_002)
HELD_OUT_SEEDS = range(5_000, 5_040)
"""The thresholds were chosen on seeds 1,000 to 1,039, which are in neither."""

SLOW_HELD_OUT = 4
"""Release 3 is measured on the first few only: its windows take ten times as long."""

DAMAGE = (
    (152_137, 190),
    (152_149, 190),
    (152_161, 190),
    (152_173, 190),
    (152_185, 190),
    (152_197, 190),
    (152_209, 190),
    (153_145, 190),
    (153_157, 190),
    (153_169, 190),
    (153_181, 190),
    (153_985, 190),
    (153_997, 190),
    (154_009, 190),
    (154_021, 190),
    (154_033, 190),
)
"""Offset in nmp.onnx and new value of each damaged byte.

The bytes hold the signs of the 16 weights of largest magnitude in the last layer of the frame output (float32, 32 x 7 x
3, from offset 151,630): each sign is turned. Turning the signs of 24 evenly spaced weights of that layer left answers
as they were.
"""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What sets a release apart."""

    version: int
    overlap_frames: int
    onset_threshold: float
    frame_threshold: float
    min_note_ms: float
    minimum_f1: float
    is_damaged: bool = False

    @property
    def pre(self) -> tuple[Operation, ...]:
        window = {"input": INPUT, "length": WINDOW_SAMPLES, "frame_samples": FRAME_SAMPLES}
        return (
            Operation("audio.decode_wav", {"sample_rate_hz": 22_050, "max_s": 30.0}),
            Operation("audio.window", {**window, "overlap_frames": self.overlap_frames}),
        )

    @property
    def post(self) -> tuple[Operation, ...]:
        return (
            Operation("notes.unwrap", {"onset_output": ONSET_OUTPUT, "frame_output": FRAME_OUTPUT}),
            Operation(
                "notes.decode",
                {
                    "onset_threshold": self.onset_threshold,
                    "frame_threshold": self.frame_threshold,
                    "min_note_ms": self.min_note_ms,
                    "lowest_pitch": LOWEST_PITCH,
                },
            ),
        )

    @property
    def comparison(self) -> Operation:
        return Operation("notes.f1", {"onset_tolerance_s": ONSET_TOLERANCE_S, "minimum_f1": self.minimum_f1})

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(pre=self.pre, post=self.post)

    def take_model(self, network: bytes) -> bytes:
        """Give the bytes of this release's model."""
        return damage(network) if self.is_damaged else network


FIRST = Recipe(version=1, overlap_frames=30, onset_threshold=0.3, frame_threshold=0.3, min_note_ms=80.0, minimum_f1=0.5)
BETTER = Recipe(
    version=2, overlap_frames=30, onset_threshold=0.6, frame_threshold=0.5, min_note_ms=100.0, minimum_f1=0.85
)
SLOW = replace(BETTER, version=3, overlap_frames=160)
DAMAGED = replace(BETTER, version=4, is_damaged=True)
RECIPES = (FIRST, BETTER, SLOW, DAMAGED)


@dataclass(frozen=True, kw_only=True)
class BuiltRelease:
    """A written release folder, and the accuracy that it promises."""

    version: int
    folder: Path
    mean_f1: float
    lowest_f1: float
    samples: int
    golden_passed: bool


def damage(network: bytes) -> bytes:
    """Give the network with the recorded bytes changed.

    Raises:
        BuildFailed: the bytes are not those of the network for which the changes were recorded.
    """
    found = hashlib.sha256(network).hexdigest()
    if found != NOTE_EVENTS.member_sha256:
        raise BuildFailed(f"{MODEL_FILE}: expected SHA-256 {NOTE_EVENTS.member_sha256}, found {found}")
    changed = bytearray(network)
    for offset, value in DAMAGE:
        changed[offset] = value
    return bytes(changed)


def build_releases(network: bytes, *, out: Path, on_built: Callable[[BuiltRelease], None]) -> None:
    """Measure, check and write `release-1` to `release-4` under `out`, replacing those that are there.

    Raises:
        BuildFailed: a measured F1 lies below what golden cases demand, or a golden case doesn't end as it should.
    """
    session = Network(network)
    sounds = [play(seed) for seed in HELD_OUT_SEEDS]
    golden = [play(seed) for seed in GOLDEN_SEEDS]
    fast = (FIRST, BETTER)
    first, better = measure(
        sounds, network=session, pipelines=[recipe.pipeline for recipe in fast], comparison=BETTER.comparison
    )
    (slow,) = measure(sounds[:SLOW_HELD_OUT], network=session, pipelines=[SLOW.pipeline], comparison=SLOW.comparison)
    for recipe, measured in zip(RECIPES, (first, better, slow, better), strict=True):
        model = recipe.take_model(network)
        passed = _check_golden(recipe, model=model, golden=golden)
        _check_promise(recipe, measured=measured)
        draft = _draft(recipe, measured=measured, golden=golden)
        folder = _write_folder(draft, model=model, golden=golden, out=out)
        on_built(
            BuiltRelease(
                version=recipe.version,
                folder=folder,
                mean_f1=measured.mean,
                lowest_f1=measured.lowest,
                samples=len(measured.scores),
                golden_passed=passed,
            )
        )


def _check_golden(recipe: Recipe, *, model: bytes, golden: Sequence[PlayedSound]) -> bool:
    """Run the golden cases; the damaged release must fail all, every other must pass all."""
    network = Network(model)
    verdicts = []
    for sound in golden:
        (answer,) = hear(sound, network=network, pipelines=[recipe.pipeline])
        verdicts.append(judge(answer, sound=sound, comparison=recipe.comparison))
    wrong = [verdict.words for verdict in verdicts if verdict.passed is recipe.is_damaged]
    if wrong:
        expected = "refused" if recipe.is_damaged else "passed"
        raise BuildFailed(f"release {recipe.version}: a golden case was to be {expected}, but: {wrong[0]}")
    return not recipe.is_damaged


def _check_promise(recipe: Recipe, *, measured: Measured) -> None:
    if measured.lowest < recipe.minimum_f1:
        raise BuildFailed(
            f"release {recipe.version}: a held-out sound has F1 {measured.lowest:.3f}, golden cases demand "
            f"{recipe.minimum_f1:g}"
        )


def _draft(recipe: Recipe, *, measured: Measured, golden: Sequence[PlayedSound]) -> ReleaseDraft:
    golden_names = [_golden_name(sound) for sound in golden]
    return ReleaseDraft(
        name=NAME,
        version=recipe.version,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        licence="Apache-2.0 (basic-pitch, Spotify)",
        provenance=_describe_provenance(recipe),
        models=(_model(recipe, measured=measured, golden=golden),),
        files=(
            DraftFile(name=MODEL_FILE, role="model", path=MODEL_FILE),
            *(DraftFile(name=name, role="golden", path=name) for name in golden_names),
        ),
    )


def _model(recipe: Recipe, *, measured: Measured, golden: Sequence[PlayedSound]) -> Model:
    samples = len(measured.scores)
    dataset = f"{samples} synthesised sounds, seeds {HELD_OUT_SEEDS.start} to {HELD_OUT_SEEDS.start + samples - 1}"
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
        variants=(
            Variant(
                name="onnx-fp32",
                format="onnx",
                precision="fp32",
                files=(MODEL_FILE,),
                accuracy=(
                    Accuracy("mean onset F1", round(measured.mean, 4), dataset, samples),
                    Accuracy("lowest onset F1", round(measured.lowest, 4), dataset, samples),
                ),
            ),
        ),
        golden=tuple(_golden_case(sound, recipe=recipe, measured=measured) for sound in golden),
    )


def _golden_case(sound: PlayedSound, *, recipe: Recipe, measured: Measured) -> GoldenCase:
    return GoldenCase(
        name=f"sound-{sound.seed}",
        file=_golden_name(sound),
        expected=sound.expected,
        comparison=recipe.comparison,
        source=(
            f"Expected notes: the score that the sound was synthesised from. Onset tolerance {ONSET_TOLERANCE_S:g} s: "
            "Bay, Ehmann and Downie, ISMIR 2009. "
            f"Minimum F1 {recipe.minimum_f1:g}: below the lowest of {len(measured.scores)} held-out sounds, "
            f"{measured.lowest:.3f}."
        ),
    )


def _describe_provenance(recipe: Recipe) -> str:
    text = (
        f"Network nmp.onnx (SHA-256 {NOTE_EVENTS.member_sha256}) from the wheel {NOTE_EVENTS.wheel} "
        f"(SHA-256 {NOTE_EVENTS.wheel_sha256}). Golden sounds and evaluation sounds: synthesised from known scores."
    )
    if recipe.is_damaged:
        text += f" {len(DAMAGE)} bytes of the weights were damaged on purpose after its accuracy was measured."
    return text


def _golden_name(sound: PlayedSound) -> str:
    return f"golden-{sound.seed}.wav"


def _write_folder(draft: ReleaseDraft, *, model: bytes, golden: Sequence[PlayedSound], out: Path) -> Path:
    """Write a release folder beside its place, then move it there."""
    folder = out / f"release-{draft.version}"
    fresh = out / f".release-{draft.version}-{os.getpid()}"
    try:
        fresh.mkdir(parents=True)
        (fresh / MODEL_FILE).write_bytes(model)
        for sound in golden:
            (fresh / _golden_name(sound)).write_bytes(sound.wav)
        (fresh / "release.json").write_bytes(encode(draft))
        if folder.exists():
            shutil.rmtree(folder)
        fresh.rename(folder)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        raise BuildFailed(f"{folder}: {error}") from error
    return folder
