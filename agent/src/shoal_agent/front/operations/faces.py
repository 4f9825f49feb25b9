"""Which faces does a detector's output hold, and are they where somebody saw them?

Boxes are decoded against anchors, as in SSD (Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016), in the form
that BlazeFace has (Bazarevsky et al., "BlazeFace: Sub-millisecond Neural Face Detection on Mobile GPUs", 2019): square
anchors of the input's size, the same number in each cell of a grid, and boxes that overlap are averaged.
"""

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.boxes import Box, clip_to_picture, measure_iou, move_to_picture, pair_boxes
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.outputs import Fraction, Name, Numbers, read_shaped, take_only_call
from shoal_agent.front.operations.values import Answer, Detections, Outputs, Placement, Tensors, Verdict

DESCRIBED_FACES = 8
BOX_VALUES = 4
"""x and y of the centre, width, height."""

Cells = Annotated[int, Meta(ge=1, le=512)]
PerCell = Annotated[int, Meta(ge=1, le=32)]


class DecodeAnchors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`faces.decode`: boxes, points and scores from what the network says of each anchor.

    Anchors come grid by grid, in a grid row by row, in a row cell by cell. Each has its place in the middle of its
    cell. The network gives the distance from there in pixels of its input, and a score as a logit.
    """

    takes: ClassVar[Any] = Outputs[Placement]
    gives: ClassVar[type] = Detections

    box_output: Name
    """float[1, anchors, 4 + 2 x points]: centre, size, then each point."""
    score_output: Name
    """float[1, anchors, 1]."""
    input_pixels: Annotated[int, Meta(ge=1, le=4_096)]
    """Side of the network's square input."""
    grids: Annotated[tuple[tuple[Cells, PerCell], ...], Meta(min_length=1, max_length=16)]
    """Cells on a side, and anchors in each cell."""
    points: Annotated[int, Meta(ge=0, le=64)] = 0
    score_clip: Annotated[float, Meta(gt=0, le=1000)] = 100.0
    """Logits beyond this are cut off, so that none is too large for the exponential."""
    minimum_score: Fraction

    def apply(self, outputs: Outputs[Placement]) -> Detections:
        """Give what scores at least `minimum_score` and has an area.

        Raises:
            BadOutput: an output is missing, of another shape, or not finite.
        """
        call = take_only_call(outputs)
        anchors = make_anchors(self.grids)
        values = BOX_VALUES + 2 * self.points
        raw = _read(call, name=self.box_output, shape=(1, len(anchors), values))
        logits = _read(call, name=self.score_output, shape=(1, len(anchors), 1))
        scores = 1 / (1 + np.exp(-np.clip(logits[:, 0], -self.score_clip, self.score_clip)))
        kept = (scores >= self.minimum_score) & (raw[:, 2:BOX_VALUES] > 0).all(axis=1)
        offsets, places = raw[kept] / self.input_pixels, anchors[kept]
        centres, halves = offsets[:, :2] + places, offsets[:, 2:BOX_VALUES] / 2
        points = offsets[:, BOX_VALUES:].reshape(len(offsets), self.points, 2) + places[:, np.newaxis]
        boxes = np.concatenate([centres - halves, centres + halves], axis=1)
        return Detections(boxes=boxes, points=points, scores=scores[kept], placement=outputs.context)


class MergeFaces(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`faces.merge`: one face for each heap of boxes that overlap.

    The likeliest box first: whatever overlaps it by more than `maximum_iou` is merged with it, to a mean weighted by
    score, and the next is chosen among the others. The heap's score is its highest.
    """

    takes: ClassVar[type] = Detections
    gives: ClassVar[type] = dict

    maximum_iou: Fraction
    keypoints: tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...] = ()
    """Names of the points, in their order."""
    maximum_faces: Annotated[int, Meta(ge=1, le=1_000)] = 100

    def apply(self, found: Detections) -> Answer:
        """Give `{"faces": [{box: {left, top, right, bottom}, score, keypoints: {name: {x, y}}}, ...]}`.

        The likeliest face comes first. Places are fractions of the picture's width and height. Boxes end at its edges,
        and one that lies beyond them is no face of this picture; a point may lie outside.

        Raises:
            BadOutput: the network gives another number of points than there are names.
        """
        if found.points.shape[1] != len(self.keypoints):
            raise BadOutput(f"{found.points.shape[1]} points a face, expected {len(self.keypoints)}")
        faces: list[Answer] = []
        left = np.argsort(-found.scores, kind="stable")
        while left.size and len(faces) < self.maximum_faces:
            best = left[0]
            together = measure_iou(found.boxes[best], found.boxes[left]) > self.maximum_iou
            together[0] = True  # also where it has no area
            heap = left[together]
            left = left[~together]
            weights = np.maximum(found.scores[heap], np.finfo(np.float64).tiny)
            box = np.average(found.boxes[heap], axis=0, weights=weights)
            points = np.average(found.points[heap], axis=0, weights=weights)
            corners = clip_to_picture(box, found.placement)
            if (corners[0] < corners[1]).all():
                points = move_to_picture(points, found.placement)
                faces.append(self._describe(corners, points, score=float(found.scores[best])))
        return {"faces": faces}

    def _describe(self, corners: Numbers, points: Numbers, *, score: float) -> Answer:
        (left, top), (right, bottom) = corners.round(4).tolist()
        places = zip(self.keypoints, points.round(4).tolist(), strict=True)
        return {
            "box": {"left": left, "top": top, "right": right, "bottom": bottom},
            "score": round(score, 4),
            "keypoints": {name: {"x": x, "y": y} for name, (x, y) in places},
        }


class SeenFace(msgspec.Struct, frozen=True, kw_only=True):
    """One expected face; other fields than the box aren't compared."""

    box: Box


class SeenFaces(msgspec.Struct, frozen=True, kw_only=True):
    """What a golden case of `faces.iou` expects: `{"faces": [{"box": {...}}, ...]}`, empty where there is none."""

    faces: Annotated[tuple[SeenFace, ...], Meta(max_length=1_000)]


class FacesIou(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`faces.iou`: as many faces as were seen, each of them where one was seen.

    Pairs are made of the boxes that overlap most first. The score is the least intersection over union of a pair; 1
    where no face was to be found and none was, 0 where the number differs.
    """

    minimum_iou: Fraction

    def compare(self, answer: Answer, *, expected: object) -> Verdict:
        """Judge the answer of `faces.merge` by the faces that were seen.

        Raises:
            BadPipeline: `expected` isn't a list of faces.
        """
        seen = _parse_faces(expected, what="expected answer")
        found = _parse_faces(answer, what="answer")
        if len(found) != len(seen):
            return Verdict(passed=False, score=0.0, words=f"{_count(len(found))} found, {len(seen)} expected")
        if not seen:
            return Verdict(passed=True, score=1.0, words="no face found, none expected")
        score = min(pair_boxes(_corners(seen), _corners(found)))
        return Verdict(
            passed=score >= self.minimum_iou,
            score=score,
            words=(
                f"{_count(len(found))} found, {len(seen)} expected; least intersection over union {score:.3f}, at "
                f"least {self.minimum_iou:g} wanted"
            ),
        )


def describe_faces(answer: Answer) -> str:
    """Put the answer of `faces.merge` in words: `1 face: 0.41,0.12–0.58,0.35 (0.93)`, corners and score of each."""
    faces = answer["faces"]
    if not faces:
        return _count(0)
    places = [
        "{left:.2f},{top:.2f}–{right:.2f},{bottom:.2f} ({score:.2f})".format(**face["box"], score=face["score"])
        for face in faces[:DESCRIBED_FACES]
    ]
    return f"{_count(len(faces))}: {'; '.join(places)}" + (" …" if len(faces) > DESCRIBED_FACES else "")


def make_anchors(grids: tuple[tuple[int, int], ...]) -> Numbers:
    """Middles of the anchors' cells, float64[anchors, 2] of x and y in fractions of the input."""
    anchors = []
    for cells, per_cell in grids:
        middles = (np.arange(cells) + 0.5) / cells
        y, x = np.meshgrid(middles, middles, indexing="ij")
        anchors.append(np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), per_cell, axis=0))
    return np.concatenate(anchors)


def _corners(faces: tuple[SeenFace, ...]) -> Numbers:
    return np.stack([face.box.corners for face in faces])


def _read(call: Tensors, *, name: str, shape: tuple[int, ...]) -> Numbers:
    """Give an output without its first dimension."""
    return np.asarray(read_shaped(call, name=name, shape=shape)[0], dtype=np.float64)


def _count(faces: int) -> str:
    return {0: "no face", 1: "1 face"}.get(faces, f"{faces} faces")


def _parse_faces(value: object, *, what: str) -> tuple[SeenFace, ...]:
    try:
        return msgspec.convert(value, type=SeenFaces).faces
    except msgspec.ValidationError as error:
        raise BadPipeline(f"faces.iou: {what}: {error}") from None
