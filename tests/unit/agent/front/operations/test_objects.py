"""Is an object told once, is it where the network says, and is its place judged by its definition?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.front.operations.objects import MAX_MERGED, MergeBoxes, ObjectsIou, describe_objects
from shoal_agent.front.operations.values import Answer, Candidates, Placement

WHOLE = Placement(left=0.0, top=0.0, width=1.0, height=1.0)
MERGE = MergeBoxes(minimum_score=0.25, maximum_iou=0.45)
IOU = ObjectsIou(minimum_iou=0.5)
LABELS = ("car", "cat")
Box = tuple[float, float, float, float]


def found(*boxes: tuple[Box, int, float], placement: Placement = WHOLE) -> Candidates:
    return Candidates(
        boxes=np.array([box for box, _, _ in boxes], dtype=np.float64).reshape(-1, 4),
        scores=np.array([score for _, _, score in boxes], dtype=np.float64),
        classes=np.array([kind for _, kind, _ in boxes], dtype=np.int64),
        labels=LABELS,
        placement=placement,
    )


def said_of(answer: Answer) -> list[tuple[str, float, Box]]:
    return [(one["label"], one["score"], tuple(one["box"].values())) for one in answer["objects"]]


A: Box = (0.0, 0.0, 0.4, 0.4)
NEAR_A: Box = (0.0, 0.0, 0.4, 0.3)
"""Three quarters of A."""
B: Box = (0.5, 0.5, 0.9, 0.9)


def test_of_boxes_that_overlap_the_likeliest_stays_as_it_is() -> None:
    assert said_of(MERGE.apply(found((NEAR_A, 0, 0.6), (A, 0, 0.9), (B, 0, 0.5)))) == [
        ("car", 0.9, A),
        ("car", 0.5, B),
    ]


def test_boxes_of_two_classes_do_not_hide_one_another() -> None:
    assert said_of(MERGE.apply(found((A, 0, 0.9), (NEAR_A, 1, 0.6)))) == [("car", 0.9, A), ("cat", 0.6, NEAR_A)]


def test_what_a_hidden_box_overlaps_is_not_hidden_by_it() -> None:
    """Each covers three fifths of the next. The first hides the second, which then doesn't hide the third."""
    row: list[Box] = [(first, 0.0, first + 0.4, 0.4) for first in (0.0, 0.1, 0.2)]
    answer = MERGE.apply(found(*((box, 0, 0.9 - box[0]) for box in row)))
    assert [box for _, _, box in said_of(answer)] == [row[0], pytest.approx(row[2])]


def test_unlikely_boxes_are_left_out() -> None:
    assert said_of(MERGE.apply(found((A, 0, 0.2499), (B, 0, 0.25)))) == [("car", 0.25, B)]


def test_a_maximum_iou_of_1_keeps_all() -> None:
    keep = MergeBoxes(minimum_score=0.0, maximum_iou=1.0)
    assert len(said_of(keep.apply(found((A, 0, 0.9), (A, 0, 0.9), (NEAR_A, 0, 0.0))))) == 3


def test_no_more_are_told_than_allowed() -> None:
    first_two = MergeBoxes(minimum_score=0.0, maximum_iou=0.5, maximum_objects=2)
    answer = first_two.apply(found((A, 0, 0.1), (B, 0, 0.9), (A, 1, 0.5)))
    assert [score for _, score, _ in said_of(answer)] == [0.9, 0.5]


def test_any_number_of_candidates_is_merged() -> None:
    many = MAX_MERGED + 10
    crowd = Candidates(
        boxes=np.tile(np.array(A), (many, 1)),
        scores=np.linspace(0.3, 0.9, many),
        classes=np.zeros(many, np.int64),
        labels=LABELS,
        placement=WHOLE,
    )
    assert said_of(MERGE.apply(crowd)) == [("car", 0.9, A)]


def test_places_are_those_of_the_picture_and_end_at_its_edges() -> None:
    """The picture fills the middle half of the input's height; one box is beside it."""
    placement = Placement(left=0.0, top=0.25, width=1.0, height=0.5)
    boxes = found(((0.1, 0.2, 0.3, 0.5), 0, 0.9), ((0.1, 0.0, 0.3, 0.25), 1, 0.9), placement=placement)
    assert said_of(MERGE.apply(boxes)) == [("car", 0.9, (0.1, 0.0, 0.3, 0.5))]


def test_places_in_a_crop_are_those_of_the_whole_picture() -> None:
    cropped = Placement(left=-0.5, top=0.0, width=2.0, height=1.0)
    assert said_of(MERGE.apply(found(((0.0, 0.0, 1.0, 1.0), 0, 0.9), placement=cropped))) == [
        ("car", 0.9, (0.25, 0.0, 0.75, 1.0))
    ]


Cell = st.integers(0, 12)
Rectangle = st.tuples(Cell, Cell, st.integers(1, 8), st.integers(1, 8))
Crowd = st.lists(st.tuples(Rectangle, st.integers(0, 1), st.integers(1, 100)), max_size=10)


def cells_of(box: Box) -> set[tuple[int, int]]:
    left, top, right, bottom = (round(20 * edge) for edge in box)
    return {(x, y) for x in range(left, right) for y in range(top, bottom)}


def place(rectangle: tuple[int, int, int, int]) -> Box:
    left, top, width, height = rectangle
    return left / 20, top / 20, (left + width) / 20, (top + height) / 20


@given(Crowd)
def test_no_two_objects_of_a_class_overlap_by_more_than_allowed(
    crowd: list[tuple[tuple[int, int, int, int], int, int]],
) -> None:
    boxes = [(place(rectangle), kind, score / 100) for rectangle, kind, score in crowd]
    told = said_of(MergeBoxes(minimum_score=0.0, maximum_iou=0.3).apply(found(*boxes)))
    asked = {(LABELS[kind], score, box) for box, kind, score in boxes}
    assert set(told) <= asked
    assert [score for _, score, _ in told] == sorted((score for _, score, _ in told), reverse=True)

    def ratio(one: Box, other: Box) -> float:
        return len(cells_of(one) & cells_of(other)) / len(cells_of(one) | cells_of(other))

    for at, (label, _, box) in enumerate(told):
        assert all(ratio(box, other) <= 0.3 + 1e-9 for kind, _, other in told[at + 1 :] if kind == label)
    for label, score, box in asked - set(told):
        assert any(kind == label and top >= score and ratio(box, other) > 0.3 - 1e-9 for kind, top, other in told)


def objects(*those: tuple[str, Box]) -> Answer:
    names = ("left", "top", "right", "bottom")
    return {
        "objects": [{"label": label, "score": 0.9, "box": dict(zip(names, box, strict=True))} for label, box in those]
    }


@pytest.mark.parametrize(
    ("expected", "answer", "score"),
    [
        (objects(("car", A)), objects(("car", A)), 1.0),
        (objects(("car", A)), objects(("car", NEAR_A)), 0.75),
        (objects(("car", A), ("cat", B)), objects(("cat", B), ("car", NEAR_A)), 0.75),
        (objects(("car", A), ("car", B)), objects(("car", B), ("car", A)), 1.0),
        (objects(("car", A)), objects(("cat", A)), 0.0),
        (objects(("car", A), ("cat", B)), objects(("car", B), ("cat", A)), 0.0),
        (objects(("car", A)), objects(("car", A), ("car", A)), 0.0),
        (objects(("car", A)), objects(), 0.0),
        (objects(), objects(("car", A)), 0.0),
        (objects(), objects(), 1.0),
    ],
)
def test_the_score_is_the_worst_overlap_within_a_label(expected: Answer, answer: Answer, score: float) -> None:
    verdict = IOU.compare(answer, expected=expected)
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is (score >= 0.5)


def test_other_labels_never_pass() -> None:
    assert not ObjectsIou(minimum_iou=0.0).compare(objects(("car", A)), expected=objects(("cat", A))).passed


def test_the_verdict_gives_its_numbers_in_words() -> None:
    seen = objects(("cat", A), ("car", A), ("cat", B))
    assert IOU.compare(objects(("car", A)), expected=seen).words == "1 car found, 1 car, 2 cat expected"
    assert IOU.compare(objects(), expected=objects()).words == "no object found, no object expected"
    assert IOU.compare(objects(("car", NEAR_A)), expected=objects(("car", A))).words == (
        "1 car found, 1 car expected; least intersection over union 0.750, at least 0.5 wanted"
    )


@pytest.mark.parametrize(
    "expected",
    [{}, None, {"objects": [{"label": "car"}]}, objects(("car", (0.5, 0, 0.1, 1))), {"objects": [{"box": A}]}],
)
def test_refuses_an_expected_answer_without_objects(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"objects\.iou: expected answer"):
        IOU.compare(objects(), expected=expected)


def test_answers_are_put_in_words() -> None:
    assert describe_objects(objects()) == "no object"
    assert describe_objects(objects(("car", (0.41, 0.12, 0.58, 0.35)))) == "1 object: car 0.41,0.12–0.58,0.35 (0.90)"
    assert describe_objects(objects(*[("car", A)] * 9)).endswith("; car 0.00,0.00–0.40,0.40 (0.90) …")
