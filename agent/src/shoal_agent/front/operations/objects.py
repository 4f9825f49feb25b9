"""Which objects does a picture show, and are they those that somebody saw?"""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from shoal_wire.encoding import Label

from shoal_agent.front.operations.boxes import Box, clip_to_picture, measure_iou, pair_boxes
from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.front.operations.outputs import Fraction, Numbers
from shoal_agent.front.operations.values import Answer, Candidates, Verdict

MAX_OBJECTS = 1_000
MAX_MERGED = 8_192
"""Candidates that are looked at, the likeliest: each object takes a comparison with all of them."""
DESCRIBED_OBJECTS = 8


class MergeBoxes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`boxes.merge`: of the boxes of one class that overlap by more than `maximum_iou`, only the likeliest.

    Greedy non-maximum suppression, class by class, as in Felzenszwalb et al., "Object Detection with Discriminatively
    Trained Part-Based Models" (PAMI 2010). A `maximum_iou` of 1 keeps all, for networks that have done it themselves.
    """

    takes: ClassVar[type] = Candidates
    gives: ClassVar[type] = dict

    minimum_score: Fraction
    maximum_iou: Fraction
    maximum_objects: Annotated[int, Meta(ge=1, le=MAX_OBJECTS)] = 100

    def apply(self, found: Candidates) -> Answer:
        """Give `{"objects": [{label, score, box: {left, top, right, bottom}}, ...]}`, the likeliest first.

        Places are fractions of the picture's width and height. Boxes end at its edges, and one that lies beyond them
        is no object of this picture.
        """
        likely = np.flatnonzero(found.scores >= self.minimum_score)
        left = likely[np.argsort(-found.scores[likely], kind="stable")][:MAX_MERGED]
        objects: list[Answer] = []
        while left.size and len(objects) < self.maximum_objects:
            best, left = left[0], left[1:]
            same = np.flatnonzero(found.classes[left] == found.classes[best])
            overlaps = measure_iou(found.boxes[best], found.boxes[left[same]]) > self.maximum_iou
            left = np.delete(left, same[overlaps])
            corners = clip_to_picture(found.boxes[best], found.placement).round(5)
            if (corners[0] < corners[1]).all():
                label, score = found.labels[found.classes[best]], round(float(found.scores[best]), 6)
                objects.append({"label": label, "score": score, "box": _describe_box(corners)})
        return {"objects": objects}


class SeenObject(msgspec.Struct, frozen=True, kw_only=True):
    """One expected object; other fields than these two aren't compared."""

    label: Label
    box: Box


class SeenObjects(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `objects.iou` expects: `{"objects": [{"label", "box": {...}}, ...]}`, perhaps empty."""

    objects: Annotated[tuple[SeenObject, ...], Meta(max_length=MAX_OBJECTS)]


class ObjectsIou(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`objects.iou`: as many objects of each label as were seen, each of them where one was seen.

    Pairs are made within a label, of the boxes that overlap most first. The score is the least intersection over union
    of a pair; 1 where no object was to be found and none was, 0 where the labels differ, or how many there are of one.
    """

    minimum_iou: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `boxes.merge` by the objects that were seen.

        Raises:
            BadPipeline: `expected` isn't a list of objects.
        """
        seen = _parse_objects(expected, what="expected answer")
        found = _parse_objects(answer, what="answer")
        counted = Counter(one.label for one in found), Counter(one.label for one in seen)
        words = f"{_count(counted[0])} found, {_count(counted[1])} expected"
        if counted[0] != counted[1]:
            return Verdict(passed=False, score=0.0, words=words)
        if not seen:
            return Verdict(passed=True, score=1.0, words=words)
        score = min(
            overlap
            for label in counted[1]
            for overlap in pair_boxes(_corners(seen, label=label), _corners(found, label=label))
        )
        return Verdict(
            passed=score >= self.minimum_iou,
            score=score,
            words=f"{words}; least intersection over union {score:.3f}, at least {self.minimum_iou:g} wanted",
        )


def describe_objects(answer: Answer) -> str:
    """Put the answer of `boxes.merge` in words: `2 objects: car 0.41,0.12–0.58,0.35 (0.93); …`, corners and score."""
    objects = answer["objects"]
    if not objects:
        return "no object"
    places = [
        "{label} {left:.2f},{top:.2f}–{right:.2f},{bottom:.2f} ({score:.2f})".format(**one, **one["box"])
        for one in objects[:DESCRIBED_OBJECTS]
    ]
    count = "1 object" if len(objects) == 1 else f"{len(objects)} objects"
    return f"{count}: {'; '.join(places)}" + (" …" if len(objects) > DESCRIBED_OBJECTS else "")


def _describe_box(corners: Numbers) -> dict[str, float]:
    (left, top), (right, bottom) = corners.tolist()
    return {"left": left, "top": top, "right": right, "bottom": bottom}


def _corners(objects: Iterable[SeenObject], *, label: str) -> Numbers:
    return np.stack([one.box.corners for one in objects if one.label == label])


def _count(labels: Counter[str]) -> str:
    """`2 car, 1 person`."""
    return ", ".join(f"{count} {label}" for label, count in sorted(labels.items())) or "no object"


def _parse_objects(value: object, *, what: str) -> tuple[SeenObject, ...]:
    try:
        return msgspec.convert(value, type=SeenObjects).objects
    except msgspec.ValidationError as error:
        raise BadPipeline(f"objects.iou: {what}: {error}") from None
