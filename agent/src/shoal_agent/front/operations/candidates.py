"""Which boxes does a detector propose, in each of the forms that detectors have?

Yolo: one output with a column for each box (Ultralytics' exports of YOLOv8 and later), or a row for each, with an
objectness as in Redmon et al., "You Only Look Once", CVPR 2016 (YOLOv5). Corners: boxes, and the scores of every class
for each, as in Liu et al., "SSD: Single Shot MultiBox Detector", ECCV 2016. Listed: what TensorFlow Lite's operator
TFLite_Detection_PostProcess gives: boxes with the class and score of each.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.outputs import (
    Activation,
    Name,
    Numbers,
    activate,
    check_scores,
    read_row,
    read_shaped,
    take_only_call,
)
from shoal_agent.front.operations.scores import Labels
from shoal_agent.front.operations.values import Candidates, Outputs, Placement, Tensors

MAX_CANDIDATES = 1 << 18
"""That a network may propose: ten times what YOLOv5 does for an input of 640 x 640."""
BOX_VALUES = 4

Side = Annotated[int, Meta(ge=1, le=4_096)]
Order = Literal["xyxy", "yxyx"]
"""Of a box's values: left, top, right, bottom; or top, left, bottom, right, as TensorFlow has them."""

_ORDERS: Mapping[Order, list[int]] = {"xyxy": [0, 1, 2, 3], "yxyx": [1, 0, 3, 2]}


class _Proposed(NamedTuple):
    """Boxes as the network has them, but from corner to corner; classes counted as the network does."""

    boxes: Numbers
    scores: Numbers
    classes: NDArray[np.int64]


class Form(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """How a network gives its boxes."""


class Yolo(Form, frozen=True, kw_only=True, tag="yolo"):
    """One output that holds for each box: centre x, centre y, width, height, [objectness,] a score for each class."""

    output: Name
    """float[1, values, boxes] or float[1, boxes, values]."""
    layout: Literal["value_rows", "box_rows"]
    has_objectness: bool = False
    """The score of a class is then its own, times that there is an object at all."""

    def read(self, call: Tensors, *, classes: int, first_class: int) -> _Proposed:
        """Give the best class of each box. Raises BadOutput."""
        first_score = BOX_VALUES + self.has_objectness
        values = first_score + classes
        is_by_value = self.layout == "value_rows"
        output = read_shaped(call, name=self.output, shape=(1, values, -1) if is_by_value else (1, -1, values))
        rows = output[0].T if is_by_value else output[0]
        _check_count(len(rows), name=self.output)
        best = _choose(rows[:, first_score:], first_class=first_class)
        scores = check_scores(np.asarray(rows[np.arange(len(rows)), first_score + best], np.float64), name=self.output)
        if self.has_objectness:
            scores *= check_scores(np.asarray(rows[:, BOX_VALUES], np.float64), name=self.output)
        centres, halves = np.asarray(rows[:, :2], np.float64), np.asarray(rows[:, 2:BOX_VALUES], np.float64) / 2
        return _Proposed(
            boxes=np.concatenate([centres - halves, centres + halves], axis=1), scores=scores, classes=best
        )


class Corners(Form, frozen=True, kw_only=True, tag="corners"):
    """Two outputs: the boxes, and the scores of all classes for each."""

    box_output: Name
    """float[1, boxes, 4]."""
    score_output: Name
    """float[1, boxes, classes]."""
    order: Order
    activation: Activation
    """Of the scores; a softmax goes over all classes, those before `first_class` too."""

    def read(self, call: Tensors, *, classes: int, first_class: int) -> _Proposed:
        """Give the best class of each box. Raises BadOutput."""
        boxes = read_shaped(call, name=self.box_output, shape=(1, -1, BOX_VALUES))[0]
        _check_count(len(boxes), name=self.box_output)
        logits = read_shaped(call, name=self.score_output, shape=(1, len(boxes), classes))[0]
        scores = activate(np.asarray(logits, np.float64), activation=self.activation)
        scores = check_scores(scores, name=self.score_output)
        best = _choose(scores, first_class=first_class)
        return _Proposed(
            boxes=np.asarray(boxes[:, _ORDERS[self.order]], np.float64),
            scores=scores[np.arange(len(scores)), best],
            classes=best,
        )


class Listed(Form, frozen=True, kw_only=True, tag="listed"):
    """Boxes with a class and a score each, chosen by the network itself."""

    box_output: Name
    """float[1, boxes, 4]."""
    class_output: Name
    """Numbers [1, boxes], whole ones."""
    score_output: Name
    """float[1, boxes], in [0, 1]."""
    count_output: Name | None = None
    """One number: how many of the boxes count. Without it, all do."""
    order: Order

    def read(self, call: Tensors, *, classes: int, first_class: int) -> _Proposed:
        """Give the boxes that count. Raises BadOutput."""
        boxes = read_shaped(call, name=self.box_output, shape=(1, -1, BOX_VALUES))[0]
        _check_count(len(boxes), name=self.box_output)
        numbers = read_shaped(call, name=self.class_output, shape=(1, len(boxes)), kinds="fiu")[0]
        scores = read_shaped(call, name=self.score_output, shape=(1, len(boxes)))[0]
        numbers, count = np.rint(np.asarray(numbers, np.float64)), self._count(call, boxes=len(boxes))
        if numbers[:count].max(initial=0) >= classes:
            raise BadOutput(
                f"output {self.class_output!r} names class {numbers[:count].max():g}, expected at most {classes - 1}"
            )
        return _Proposed(
            boxes=np.asarray(boxes[:count, _ORDERS[self.order]], np.float64),
            scores=check_scores(np.asarray(scores[:count], np.float64), name=self.score_output),
            classes=np.maximum(numbers[:count], -1).astype(np.int64),
        )

    def _count(self, call: Tensors, *, boxes: int) -> int:
        if self.count_output is None:
            return boxes
        count = float(read_row(call, name=self.count_output, at_most=1)[0])
        if not 0 <= count <= boxes:
            raise BadOutput(f"output {self.count_output!r} is {count:g}, expected 0 to {boxes}, the number of boxes")
        return round(count)


class DecodeBoxes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`boxes.decode`: the boxes that a detector proposes, each with its likeliest class.

    `form` is `{"kind": "yolo" | "corners" | "listed", …}` with the parameters of Yolo, Corners or Listed.
    """

    takes: ClassVar[Any] = Outputs[Placement]
    gives: ClassVar[type] = Candidates

    form: Yolo | Corners | Listed
    input_size: tuple[Side, Side]
    """What x and y are divided by: width and height of the input where boxes are in its pixels; [1, 1] where they are
    fractions of it."""
    labels: Labels
    first_class: Annotated[int, Meta(ge=0, le=1_000)] = 0
    """Number of the class of the first label. Those before it are no objects: 1 where 0 is the background."""

    def apply(self, outputs: Outputs[Placement]) -> Candidates:
        """Give all boxes that have an area and a label.

        Raises:
            BadOutput: several inferences; an output is missing, of another shape, or not finite; scores outside
                [0, 1]; a class without a label; more than MAX_CANDIDATES boxes.
        """
        found = self.form.read(
            take_only_call(outputs),
            classes=self.first_class + len(self.labels),
            first_class=self.first_class,
        )
        kept = (found.boxes[:, :2] < found.boxes[:, 2:]).all(axis=1) & (found.classes >= self.first_class)
        return Candidates(
            boxes=found.boxes[kept] / np.tile(self.input_size, 2),
            scores=found.scores[kept],
            classes=found.classes[kept] - self.first_class,
            labels=self.labels,
            placement=outputs.context,
        )


def _choose(scores: NDArray[Any], *, first_class: int) -> NDArray[np.int64]:
    """The likeliest class of each box among those that are objects. `scores`: [boxes, classes]."""
    return np.asarray(scores[:, first_class:].argmax(axis=1) + first_class, np.int64)


def _check_count(boxes: int, *, name: str) -> None:
    if boxes > MAX_CANDIDATES:
        raise BadOutput(f"output {name!r} holds {boxes} boxes, expected at most {MAX_CANDIDATES}")
