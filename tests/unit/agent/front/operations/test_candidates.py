"""Are boxes, scores and classes read from each form of output as its definition says?"""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from shoal_agent.front.operations.candidates import MAX_CANDIDATES, DecodeBoxes
from shoal_agent.front.operations.errors import BadOutput
from shoal_agent.front.operations.values import Candidates, Outputs, Placement, Tensors

WHOLE = Placement(left=0.0, top=0.0, width=1.0, height=1.0)
YOLO = {"kind": "yolo", "output": "out", "layout": "box_rows"}
CORNERS = {"kind": "corners", "box_output": "boxes", "score_output": "scores", "order": "xyxy", "activation": "none"}
LISTED = {
    "kind": "listed",
    "box_output": "boxes",
    "class_output": "classes",
    "score_output": "scores",
    "order": "yxyx",
}


def decode(form: Mapping[str, object], call: Tensors, **options: object) -> Candidates:
    parameters = {"form": form, "input_size": [100, 50], "labels": ["car", "cat"], **options}
    step: DecodeBoxes = msgspec.convert(parameters, type=DecodeBoxes)
    return step.apply(Outputs(calls=[call], context=WHOLE))


def floats(*values: Any) -> Any:
    return np.array([values], np.float32)


def boxes_of(found: Candidates) -> list[list[float]]:
    rounded: list[list[float]] = found.boxes.round(6).tolist()
    return rounded


ROWS = [[50, 25, 20, 10, 0.1, 0.9], [10, 10, 20, 20, 0.6, 0.3]]
"""Centre, size, and two scores: a cat in the middle of an input of 100 x 50, and a car in its corner."""
PLACES = [[0.4, 0.4, 0.6, 0.6], [0.0, 0.0, 0.2, 0.4]]


@pytest.mark.parametrize("layout", ["box_rows", "value_rows"])
def test_yolo_gives_centres_and_sizes_by_row_or_column(layout: str) -> None:
    rows = floats(*ROWS)
    found = decode({**YOLO, "layout": layout}, {"out": rows if layout == "box_rows" else rows.transpose(0, 2, 1)})
    assert boxes_of(found) == PLACES
    assert found.classes.tolist() == [1, 0]
    assert found.scores.tolist() == pytest.approx([0.9, 0.6])
    assert (found.labels, found.placement) == (("car", "cat"), WHOLE)


def test_an_objectness_weighs_the_scores() -> None:
    found = decode({**YOLO, "has_objectness": True}, {"out": floats([50, 25, 20, 10, 0.5, 0.1, 0.9])})
    assert (found.classes.tolist(), found.scores.tolist()) == ([1], pytest.approx([0.45]))


def test_boxes_that_are_fractions_already_stay_what_they_are() -> None:
    found = decode(YOLO, {"out": floats([0.5, 0.5, 0.2, 0.2, 0.1, 0.9])}, input_size=[1, 1])
    assert boxes_of(found) == [PLACES[0]]


@pytest.mark.parametrize(("order", "box"), [("xyxy", [40, 20, 60, 30]), ("yxyx", [20, 40, 30, 60])])
def test_corners_come_in_either_order(order: str, box: list[float]) -> None:
    found = decode({**CORNERS, "order": order}, {"boxes": floats(box), "scores": floats([0.2, 0.7])})
    assert (boxes_of(found), found.classes.tolist()) == ([PLACES[0]], [1])


def test_the_background_takes_part_in_a_softmax_but_is_no_object() -> None:
    """Shares of 5, 1 and 2 in 8: the best of the objects is the cat with a quarter."""
    logits = np.log(floats([5, 1, 2])).astype(np.float32)
    form = {**CORNERS, "activation": "softmax"}
    found = decode(form, {"boxes": floats([40, 20, 60, 30]), "scores": logits}, first_class=1)
    assert (found.classes.tolist(), found.scores.tolist()) == ([1], pytest.approx([0.25]))


LIST: Tensors = {
    "boxes": floats([0.4, 0.4, 0.6, 0.6], [0.0, 0.0, 0.4, 0.2], [0.0, 0.0, 0.0, 0.0]),
    "classes": floats(1, 0, 0),
    "scores": floats(0.9, 0.6, 0.0),
    "count": np.array([2], np.float32),
}


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_list_names_the_class_of_each_box(dtype: type) -> None:
    call = {**LIST, "classes": LIST["classes"].astype(dtype)}
    found = decode(LISTED, call, input_size=[1, 1])
    assert boxes_of(found) == PLACES
    assert (found.classes.tolist(), found.scores.tolist()) == ([1, 0], pytest.approx([0.9, 0.6]))


@pytest.mark.parametrize("count", [np.array([1], np.float32), np.array([[1]], np.int32)])
def test_of_a_list_as_many_count_as_it_says(count: Any) -> None:
    found = decode({**LISTED, "count_output": "count"}, {**LIST, "count": count}, input_size=[1, 1])
    assert boxes_of(found) == PLACES[:1]


def test_classes_before_the_first_label_are_no_objects() -> None:
    found = decode(LISTED, {**LIST, "classes": floats(1, 0, -1)}, input_size=[1, 1], first_class=1)
    assert (found.classes.tolist(), boxes_of(found)) == ([0], PLACES[:1])


def test_boxes_without_an_area_are_left_out() -> None:
    found = decode(YOLO, {"out": floats([50, 25, 0, 10, 0.1, 0.9], [50, 25, 10, -1, 0.1, 0.9], ROWS[0])})
    assert boxes_of(found) == [PLACES[0]]


def test_no_box_at_all_is_an_answer() -> None:
    assert decode(YOLO, {"out": np.zeros((1, 0, 6), np.float32)}).boxes.shape == (0, 4)


@pytest.mark.parametrize(
    ("form", "call", "said"),
    [
        (YOLO, {"other": floats(*ROWS)}, "'out' is missing"),
        (YOLO, {"out": floats(*ROWS).transpose(0, 2, 1)}, r"shape \[1, 6, 2\], expected \[1, -1, 6\]"),
        (YOLO, {"out": floats([50, 25, 20, 10, 0.1, 0.9, 0.5])}, r"shape \[1, 1, 7\]"),
        (YOLO, {"out": floats([50, 25, 20, 10, 0.1, np.nan])}, "not finite"),
        (YOLO, {"out": floats([50, 25, 20, 10, 0.1, 7])}, r"expected scores in \[0, 1\]"),
        (YOLO, {"out": np.zeros((1, MAX_CANDIDATES + 1, 6), np.float32)}, "at most 262144"),
        (
            CORNERS,
            {"boxes": floats([0, 0, 1, 1]), "scores": floats([0, 1], [0, 1])},
            r"\[1, 2, 2\], expected \[1, 1, 2",
        ),
        (CORNERS, {"boxes": floats([0, 0, 1]), "scores": floats([0, 1])}, r"\[1, 1, 3\], expected \[1, -1, 4\]"),
        (CORNERS, {"boxes": floats([0, 0, 1, np.inf]), "scores": floats([0, 1])}, "not finite"),
        (LISTED, {**LIST, "classes": floats(0, 2, 0)}, "names class 2, expected at most 1"),
        (LISTED, {**LIST, "classes": floats(0, 1e30, 0)}, r"names class 1e\+30, expected at most 1"),
        (LISTED, {**LIST, "scores": floats(0.5, 0.5)}, r"shape \[1, 2\], expected \[1, 3\]"),
        ({**LISTED, "count_output": "count"}, {**LIST, "count": floats(4)}, "is 4, expected 0 to 3"),
        ({**LISTED, "count_output": "count"}, {**LIST, "count": floats(-1)}, "is -1, expected 0 to 3"),
        ({**LISTED, "count_output": "count"}, {**LIST, "count": floats(1, 1)}, r"shape \[1, 2\]"),
        ({**LISTED, "count_output": "number"}, LIST, "'number' is missing"),
    ],
)
def test_refuses_outputs_that_do_not_fit(form: dict[str, object], call: Tensors, said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        decode(form, call)


@pytest.mark.parametrize("options", [{"input_size": [0, 1]}, {"input_size": [1]}, {"labels": []}, {"first_class": -1}])
def test_refuses_parameters_out_of_range(options: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError, match=next(iter(options))):
        decode(YOLO, {"out": floats(*ROWS)}, **options)
