"""What must be known of object detection: boxes with labels?

Mean average precision by pycocotools, as COCO has it (https://cocodataset.org/#detection-eval), over boxes of all sizes
and at most 100 a picture.
"""

import contextlib
import copy
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from shoal_agent.front.operations.boxes import Box, measure_iou
from shoal_agent.front.operations.values import Answer
from shoal_wire.encoding import Label, Parameters
from shoal_wire.manifest import Operation, Tensor

from shoal_converters.tasks.distribution import count_answers
from shoal_converters.tasks.judging import JudgedByComparison
from shoal_converters.tasks.labels import parse_name, parse_object
from shoal_converters.tasks.proposals import propose_boxes, propose_picture
from shoal_converters.tasks.task import Expected, Proposal, Scored, Selection

RESAMPLES = 200
"""Each takes some ten milliseconds."""
NOTHING = "nothing"
"""What stands in a pair for no box."""

_THRESHOLDS: Mapping[str, list[float]] = {
    "0.5": [0.5],
    "0.5:0.95": [round(0.5 + step / 20, 2) for step in range(10)],
}
_SHOWN = 5


class SeenObject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a data set says of one object."""

    label: Label
    box: Box


class SeenObjects(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a data set says of one picture."""

    objects: tuple[SeenObject, ...]


@dataclass(frozen=True, kw_only=True)
class Detection(JudgedByComparison):
    """Answers `{"objects": [{"label", "score", "box"}, ...]}`; expected the same without scores.

    Boxes are `{"left", "top", "right", "bottom"}` in fractions of the picture.
    """

    name: ClassVar[str] = "detection"

    iou: Literal["0.5", "0.5:0.95"] = "0.5"
    """Intersection over union from which a box counts as found; the mean over 0.50, 0.55, …, 0.95 is COCO's own."""

    @property
    def metric(self) -> str:
        return f"mAP at IoU {self.iou}"

    def parse_label(self, label: object, *, labels: Sequence[str]) -> Expected:
        """`{"objects": [{"label", "box"}, ...]}`, or the list alone."""
        seen = parse_object({"objects": label} if isinstance(label, list | tuple) else label, SeenObjects)
        return {
            "objects": [
                {"label": parse_name(one.label, labels=labels), "box": msgspec.to_builtins(one.box)}
                for one in seen.objects
            ]
        }

    def score(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Scored:
        evaluator = _evaluate(answers, expected, thresholds=_THRESHOLDS[self.iou]) if answers else None

        def measure(selection: Selection) -> float:
            return float("nan") if evaluator is None else _average_precision(evaluator, selection)

        return Scored(items=len(answers), measure=measure, resamples=RESAMPLES)

    def compare(self, minimum: float) -> Operation:
        return Operation("objects.iou", {"minimum_iou": minimum})

    def margin(self, answer: Answer, expected: Expected) -> float:
        """As the overlap goes from 0 to 1; where all is found, no more than the least score that was needed for it."""
        by_overlap = super().margin(answer, expected)
        lowest = min((one["score"] for one in answer["objects"]), default=1.0)
        return min(by_overlap, lowest) if by_overlap > 0 else by_overlap

    def summarise(self, answers: Sequence[Answer]) -> Parameters:
        """Labels of objects, objects in a picture, their scores and shares of the picture's area."""
        objects = [one for answer in answers for one in answer["objects"]]
        return count_answers(
            len(answers),
            labels=Counter(one["label"] for one in objects),
            values={
                "objects": (len(answer["objects"]) for answer in answers),
                "score": (one["score"] for one in objects),
                "area": ((box["right"] - box["left"]) * (box["bottom"] - box["top"]) for box in _boxes(objects)),
            },
        )

    def count_pairs(self, answers: Sequence[Answer], expected: Sequence[Expected]) -> Mapping[tuple[str, str], int]:
        """Pairs of boxes that overlap by half, whatever their labels; the others are paired with "nothing"."""
        pairs: Counter[tuple[str, str]] = Counter()
        for answer, wanted in zip(answers, expected, strict=True):
            pairs.update(_pair(wanted["objects"], answer["objects"]))
        return pairs

    def describe(self, answer: Mapping[str, Any]) -> str:
        objects = answer["objects"]
        words = [f"{one['label']} {one['score']:.2f}" if "score" in one else str(one["label"]) for one in objects]
        return (", ".join(words[:_SHOWN]) + (" …" if len(words) > _SHOWN else "")) or NOTHING

    def propose(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor], *, labels: Sequence[str]) -> Proposal:
        return Proposal(pre=propose_picture(inputs), post=propose_boxes(inputs, outputs, labels=labels))


def _evaluate(answers: Sequence[Answer], expected: Sequence[Expected], *, thresholds: Sequence[float]) -> Any:
    """Match boxes of every picture. Pictures, labels and boxes are numbered from 1: pycocotools takes 0 for none."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    names = sorted({one["label"] for said in (*answers, *expected) for one in said["objects"]})
    numbers = {name: number for number, name in enumerate(names, 1)}
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does
        known, found = COCO(), COCO()
        for coco, said in ((known, expected), (found, answers)):
            coco.dataset = _to_coco(said, numbers)
            coco.createIndex()
        evaluator = COCOeval(known, found, "bbox")
        evaluator.params.iouThrs = np.array(thresholds)
        evaluator.params.areaRng, evaluator.params.areaRngLbl = [[0.0, 1e10]], ["all"]
        evaluator.params.maxDets = [100]
        evaluator.evaluate()
    return evaluator


def _to_coco(said: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]) -> dict[str, Any]:
    annotations: list[dict[str, Any]] = []
    for image, one in enumerate(said, 1):
        for seen in one["objects"]:
            box = seen["box"]
            width, height = box["right"] - box["left"], box["bottom"] - box["top"]
            annotations.append(
                {
                    "id": len(annotations) + 1,
                    "image_id": image,
                    "category_id": numbers[seen["label"]],
                    "bbox": [box["left"], box["top"], width, height],
                    "area": width * height,
                    "iscrowd": 0,
                    "score": seen.get("score", 1.0),
                }
            )
    return {
        "images": [{"id": image} for image in range(1, len(said) + 1)],
        "categories": [{"id": number, "name": name} for name, number in numbers.items()],
        "annotations": annotations,
    }


def _average_precision(evaluator: Any, selection: Selection) -> float:
    """Mean over labels that were to be found and over thresholds.

    Matches are those of each picture, in lists of pictures for each label: the lists of a selection are put together
    from them, and accumulated anew.
    """
    pictures = len(evaluator.params.imgIds)
    chosen = copy.copy(evaluator)
    chosen.params, chosen._paramsEval = copy.copy(evaluator.params), copy.copy(evaluator._paramsEval)
    chosen.params.imgIds = chosen._paramsEval.imgIds = list(range(len(selection)))
    labels = len(evaluator.params.catIds)
    chosen.evalImgs = [
        evaluator.evalImgs[label * pictures + place] for label in range(labels) for place in selection.tolist()
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        chosen.accumulate()
    precision = chosen.eval["precision"]
    defined = precision[precision > -1]
    return float(defined.mean()) if defined.size else float("nan")


def _boxes(objects: Sequence[Mapping[str, Any]]) -> list[dict[str, float]]:
    return [one["box"] for one in objects]


def _pair(seen: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Those that overlap most first, down to a half."""
    left = {place: _corners(one) for place, one in enumerate(found)}
    pairs = []
    overlaps = sorted(
        (
            (float(measure_iou(_corners(one), np.stack(list(left.values())))[at]), row, column)
            for row, one in enumerate(seen)
            for at, column in enumerate(left)
        ),
        key=lambda overlap: (-overlap[0], overlap[1:]),
    )
    waiting = set(range(len(seen)))
    for overlap, row, column in overlaps:
        if overlap >= 0.5 and row in waiting and column in left:
            waiting.remove(row)
            del left[column]
            pairs.append((seen[row]["label"], found[column]["label"]))
    pairs += [(seen[row]["label"], NOTHING) for row in sorted(waiting)]
    return pairs + [(NOTHING, found[column]["label"]) for column in left]


def _corners(one: Mapping[str, Any]) -> Any:
    box = one["box"]
    return np.array([box["left"], box["top"], box["right"], box["bottom"]])
