"""Are boxes where the network's numbers say, is a face counted once, and is its place judged by its definition?"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.faces import (
    DecodeAnchors,
    FacesIou,
    MergeFaces,
    describe_faces,
    make_anchors,
)
from shoal_agent.front.operations.values import Answer, Detections, Outputs, Placement, Tensors

WHOLE = Placement(left=0.0, top=0.0, width=1.0, height=1.0)
GRIDS = ((2, 1), (1, 2))
"""Six anchors: four in quarters, two in the middle."""

MIDDLES = [(0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75), (0.5, 0.5), (0.5, 0.5)]
DECODE = DecodeAnchors(
    box_output="boxes", score_output="scores", input_pixels=100, grids=GRIDS, points=1, minimum_score=0.5
)
MERGE = MergeFaces(maximum_iou=0.3, keypoints=("nose",))
IOU = FacesIou(minimum_iou=0.5)


def outputs_of(anchors: dict[int, tuple[list[float], float]]) -> Outputs[Placement]:
    """Raw outputs, nothing likely but these anchors: x, y, width, height, point x, point y, and a logit."""
    boxes = np.zeros((1, 6, 6), np.float32)
    scores = np.full((1, 6, 1), -50.0, np.float32)
    for anchor, (values, logit) in anchors.items():
        boxes[0, anchor], scores[0, anchor] = values, logit
    return Outputs(calls=[{"boxes": boxes, "scores": scores}], context=WHOLE)


def found(*boxes: tuple[list[float], float], placement: Placement = WHOLE) -> Detections:
    return Detections(
        boxes=np.array([box for box, _ in boxes], dtype=np.float64).reshape(-1, 4),
        points=np.array([[box[:2]] for box, _ in boxes], dtype=np.float64).reshape(-1, 1, 2),
        scores=np.array([score for _, score in boxes], dtype=np.float64),
        placement=placement,
    )


def places_of(answer: Answer) -> list[tuple[float, ...]]:
    return [tuple(face["box"].values()) for face in answer["faces"]]


def test_anchors_come_grid_by_grid_row_by_row() -> None:
    assert make_anchors(GRIDS).tolist() == [list(middle) for middle in MIDDLES]


def test_blazeface_has_896_anchors() -> None:
    """512 on the 16 x 16 grid and 384 on the 8 x 8 one (Bazarevsky et al., 2019)."""
    anchors = make_anchors(((16, 2), (8, 6)))
    assert anchors.shape == (896, 2)
    assert anchors[0].tolist() == anchors[1].tolist() == [0.5 / 16, 0.5 / 16]
    assert anchors[512].tolist() == anchors[517].tolist() == [0.5 / 8, 0.5 / 8]
    assert anchors[518].tolist() == [1.5 / 8, 0.5 / 8]


@pytest.mark.parametrize("anchor", range(6))
def test_a_box_lies_where_its_anchor_and_its_numbers_say(anchor: int) -> None:
    decoded = DECODE.apply(outputs_of({anchor: ([5, -10, 20, 40, 7, 8], 0.0)}))
    x, y = MIDDLES[anchor]
    assert decoded.scores.tolist() == [0.5]
    np.testing.assert_allclose(decoded.boxes, [[x + 0.05 - 0.1, y - 0.1 - 0.2, x + 0.05 + 0.1, y - 0.1 + 0.2]])
    np.testing.assert_allclose(decoded.points, [[[x + 0.07, y + 0.08]]])


@given(st.floats(-(2.0**99), 2.0**99, width=32))
def test_a_score_is_the_logistic_of_its_logit(logit: float) -> None:
    decoded = DecodeAnchors(
        box_output="boxes", score_output="scores", input_pixels=100, grids=GRIDS, points=1, minimum_score=0.0
    ).apply(outputs_of({0: ([0, 0, 10, 10, 0, 0], logit)}))
    expected = 0.0 if logit < -700 else 1 / (1 + math.exp(-logit)) if logit < 700 else 1.0
    assert decoded.scores[0] == pytest.approx(expected, abs=1e-12)


def test_unlikely_boxes_and_boxes_without_an_area_are_left_out() -> None:
    box = [0.0, 0.0, 10.0, 10.0, 0.0, 0.0]
    inside_out = [0.0, 0.0, 10.0, -10.0, 0.0, 0.0]
    decoded = DECODE.apply(outputs_of({0: (box, -0.01), 1: (box, 0.01), 2: (inside_out, 9.0), 3: ([0] * 6, 9.0)}))
    assert len(decoded.scores) == 1


@pytest.mark.parametrize("likely", [0, 1, 2])
def test_a_network_without_points_gives_boxes_alone(likely: int) -> None:
    decode = DecodeAnchors(box_output="boxes", score_output="scores", input_pixels=100, grids=GRIDS, minimum_score=0.5)
    boxes = np.tile(np.array([0, 0, 20, 20], np.float32), (1, 6, 1))
    scores = np.full((1, 6, 1), -50.0, np.float32)
    scores[0, :likely] = 50.0
    decoded = decode.apply(Outputs(calls=[{"boxes": boxes, "scores": scores}], context=WHOLE))
    assert (decoded.boxes.shape, decoded.points.shape) == ((likely, 4), (likely, 0, 2))
    answer = MergeFaces(maximum_iou=0.3).apply(decoded)
    assert sorted(places_of(answer)) == [(0.15, 0.15, 0.35, 0.35), (0.65, 0.15, 0.85, 0.35)][:likely]
    assert all(face["keypoints"] == {} for face in answer["faces"])


GOOD: Tensors = {"boxes": np.zeros((1, 6, 6), np.float32), "scores": np.zeros((1, 6, 1), np.float32)}


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([], "outputs of 0 inferences, expected 1"),
        ([GOOD, GOOD], "outputs of 2 inferences"),
        ([{"boxes": GOOD["boxes"]}], "'scores' is missing"),
        ([{**GOOD, "boxes": GOOD["boxes"][:, :5]}], r"shape \[1, 5, 6\], expected \[1, 6, 6\]"),
        ([{**GOOD, "scores": GOOD["scores"][0]}], r"shape \[6, 1\]"),
        ([{**GOOD, "boxes": np.full((1, 6, 6), np.nan, np.float32)}], "not finite"),
        ([{**GOOD, "scores": np.zeros((1, 6, 1), np.int64)}], "int64"),
    ],
)
def test_refuses_outputs_that_do_not_fit(calls: list[Tensors], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        DECODE.apply(Outputs(calls=calls, context=WHOLE))


def test_boxes_that_overlap_become_one_weighted_by_score() -> None:
    """BlazeFace averages where SSD drops: (0.75 x 0.2 + 0.25 x 0.24) / 1 = 0.21."""
    answer = MERGE.apply(found(([0.2, 0.2, 0.6, 0.6], 0.75), ([0.24, 0.2, 0.64, 0.6], 0.25)))
    assert places_of(answer) == [(0.21, 0.2, 0.61, 0.6)]
    assert answer["faces"][0]["score"] == 0.75
    assert answer["faces"][0]["keypoints"] == {"nose": {"x": 0.21, "y": 0.2}}


def test_faces_apart_stay_apart_and_the_likeliest_comes_first() -> None:
    answer = MERGE.apply(found(([0.0, 0.0, 0.2, 0.2], 0.6), ([0.5, 0.5, 0.7, 0.7], 0.9)))
    assert places_of(answer) == [(0.5, 0.5, 0.7, 0.7), (0.0, 0.0, 0.2, 0.2)]


def test_places_are_those_of_the_picture_and_end_at_its_edges() -> None:
    """The picture fills the middle half of the input's height."""
    placement = Placement(left=0.0, top=0.25, width=1.0, height=0.5)
    answer = MERGE.apply(found(([0.1, 0.2, 0.3, 0.5], 0.9), placement=placement))
    assert places_of(answer) == [(0.1, 0.0, 0.3, 0.5)]
    assert answer["faces"][0]["keypoints"]["nose"] == {"x": 0.1, "y": -0.1}


def test_a_face_beside_the_picture_is_none_of_its_faces() -> None:
    placement = Placement(left=0.0, top=0.5, width=1.0, height=0.5)
    assert places_of(MERGE.apply(found(([0.1, 0.1, 0.3, 0.3], 0.9), placement=placement))) == []


def test_refuses_another_number_of_points() -> None:
    with pytest.raises(BadOutput, match="1 points a face, expected 2"):
        MergeFaces(maximum_iou=0.3, keypoints=("nose", "mouth")).apply(found(([0, 0, 1, 1], 0.9)))


Cell = st.integers(0, 12)
Rectangle = st.tuples(Cell, Cell, st.integers(1, 8), st.integers(1, 8))


def corners_of(rectangle: tuple[int, int, int, int]) -> list[float]:
    left, top, width, height = rectangle
    return [left / 20, top / 20, (left + width) / 20, (top + height) / 20]


@given(st.lists(st.tuples(Rectangle, st.integers(1, 100)), max_size=8))
def test_every_face_answers_for_itself_and_none_is_invented(boxes: list[tuple[tuple[int, int, int, int], int]]) -> None:
    answer = MERGE.apply(found(*((corners_of(box), score / 100) for box, score in boxes)))
    scores = [face["score"] for face in answer["faces"]]
    assert len(scores) <= len(boxes) and bool(scores) == bool(boxes)
    assert scores == sorted(scores, reverse=True)
    assert not boxes or scores[0] == max(score for _, score in boxes) / 100
    for left, top, right, bottom in places_of(answer):
        assert 0 <= left < right <= 1 and 0 <= top < bottom <= 1


def faces(*boxes: list[float]) -> Answer:
    names = ("left", "top", "right", "bottom")
    return {"faces": [{"box": dict(zip(names, box, strict=True)), "score": 0.9} for box in boxes]}


A, B = [0.0, 0.0, 0.4, 0.4], [0.5, 0.5, 0.9, 0.9]
A_WIDER = [0.0, 0.0, 0.8, 0.4]
"""Half of it is A."""


@pytest.mark.parametrize(
    ("expected", "answer", "score"),
    [
        (faces(A), faces(A), 1.0),
        (faces(A), faces(A_WIDER), 0.5),
        (faces(A, B), faces(B, A), 1.0),
        (faces(A, B), faces(B, A_WIDER), 0.5),
        (faces(A), faces(B), 0.0),
        (faces(A), faces(), 0.0),
        (faces(A), faces(A, B), 0.0),
        (faces(), faces(A), 0.0),
        (faces(), faces(), 1.0),
    ],
)
def test_the_score_is_the_worst_pairs_overlap(expected: Answer, answer: Answer, score: float) -> None:
    verdict = IOU.compare(answer, expected=expected)
    assert verdict.score == pytest.approx(score)
    assert verdict.passed is (score >= 0.5)


def test_another_number_of_faces_never_passes() -> None:
    assert not FacesIou(minimum_iou=0.0).compare(faces(A, B), expected=faces(A)).passed


def test_the_verdict_gives_its_numbers_in_words() -> None:
    assert IOU.compare(faces(A), expected=faces(A, B)).words == "1 face found, 2 expected"
    assert IOU.compare(faces(A_WIDER), expected=faces(A)).words == (
        "1 face found, 1 expected; least intersection over union 0.500, at least 0.5 wanted"
    )


@pytest.mark.parametrize(
    "expected",
    [{}, {"faces": [{}]}, faces([0.4, 0, 0.1, 1]), faces([0, 0, 1, 1.5]), [], None, {"faces": [{"box": [0, 0, 1, 1]}]}],
)
def test_refuses_an_expected_answer_without_boxes(expected: object) -> None:
    with pytest.raises(BadPipeline, match=r"faces\.iou: expected answer"):
        IOU.compare(faces(), expected=expected)


def test_answers_are_put_in_words() -> None:
    assert describe_faces(faces()) == "no face"
    assert describe_faces(faces([0.41, 0.12, 0.58, 0.35])) == "1 face: 0.41,0.12–0.58,0.35 (0.90)"
    assert describe_faces(faces(A, B)) == "2 faces: 0.00,0.00–0.40,0.40 (0.90); 0.50,0.50–0.90,0.90 (0.90)"
    assert describe_faces(faces(*[A] * 9)).endswith(" …")
