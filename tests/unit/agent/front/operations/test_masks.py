"""Does each part of a picture get the label that the output says, and are areas judged by counted cells?"""

from itertools import groupby, pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.errors import BadOutput, BadPipeline
from shoal_agent.front.operations.masks import (
    MaskIou,
    ReadMask,
    describe_mask,
    encode_runs,
    measure_label_ious,
    parse_mask,
)
from shoal_agent.front.operations.values import Answer, Outputs, Placement

WHOLE = Placement(left=0.0, top=0.0, width=1.0, height=1.0)
LABELS = ["sky", "road", "car"]
IOU = MaskIou(minimum_iou=0.5)
Grid = list[list[int]]


def read(output: Any, *, placement: Placement = WHOLE, **options: object) -> Answer:
    parameters = {"output": "out", "layout": "nhwc", "chosen_by": "highest", "labels": LABELS, **options}
    step: ReadMask = msgspec.convert(parameters, type=ReadMask)
    return step.apply(Outputs(calls=[{"out": output}], context=placement))


def scores_of(grid: Grid, *, layout: str = "nhwc") -> Any:
    """An output whose highest channel is what the grid says."""
    scores = np.eye(3, dtype=np.float32)[np.array(grid)][np.newaxis]
    return scores if layout == "nhwc" else scores.transpose(0, 3, 1, 2)


def grid_of(answer: Answer) -> Grid:
    mask = answer["mask"]
    line = [label for label, length in mask["runs"] for _ in range(length)]
    assert len(line) == mask["width"] * mask["height"]
    return [line[first : first + mask["width"]] for first in range(0, len(line), mask["width"])]


def mask(grid: Grid, *, labels: list[str] = LABELS) -> Answer:
    line = [cell for row in grid for cell in row]
    runs = [[label, len(list(run))] for label, run in groupby(line)]
    return {"mask": {"width": len(grid[0]), "height": len(grid), "labels": labels, "runs": runs}}


GRID = [[0, 0, 0, 2], [1, 2, 2, 2], [1, 1, 1, 1]]


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_each_cell_has_the_label_of_its_highest_channel(layout: str) -> None:
    answer = read(scores_of(GRID, layout=layout), layout=layout)
    assert answer == mask(GRID)
    assert answer["mask"]["runs"] == [[0, 3], [2, 1], [1, 1], [2, 3], [1, 4]]


@pytest.mark.parametrize("shape", [(1, 1, 4, 1), (1, 1, 1, 4), (1, 1, 4)])
def test_a_threshold_tells_two_labels_apart(shape: tuple[int, ...]) -> None:
    layout = {(1, 1, 4, 1): "nhwc", (1, 1, 1, 4): "nchw", (1, 1, 4): "nhw"}[shape]
    logits = np.array([-2.0, -0.001, 0.0, 5.0], np.float32).reshape(shape)
    answer = read(logits, layout=layout, chosen_by="threshold", threshold=0.0, labels=["other", "person"])
    assert grid_of(answer) == [[0, 0, 1, 1]]


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_an_output_may_hold_places_of_labels(dtype: type) -> None:
    assert read(np.array([GRID], dtype), layout="nhw", chosen_by="index") == mask(GRID)


def test_what_does_not_show_the_picture_is_cut_off() -> None:
    """The picture fills two of four rows, in the middle."""
    letterboxed = Placement(left=0.0, top=0.25, width=1.0, height=0.5)
    answer = read(scores_of([[0] * 4, [1] * 4, [2] * 4, [0] * 4]), placement=letterboxed)
    assert grid_of(answer) == [[1] * 4, [2] * 4]


@given(st.integers(1, 200), st.integers(1, 200), st.integers(1, 16))
def test_a_mask_covers_the_picture_alone_however_coarse_the_output(width: int, height: int, cells: int) -> None:
    """The output is road where the input shows the picture by at least half a cell, and sky where it doesn't."""
    longer = max(width, height)
    size = width / longer, height / longer
    placement = Placement(left=(1 - size[0]) / 2, top=(1 - size[1]) / 2, width=size[0], height=size[1])
    middles = (np.arange(cells) + 0.5) / cells
    slack = 0.5 / cells + 1e-9
    inside_x = np.abs(middles - 0.5) <= size[0] / 2 + slack
    inside_y = np.abs(middles - 0.5) <= size[1] / 2 + slack
    answer = read(scores_of(np.outer(inside_y, inside_x).astype(int).tolist()), placement=placement)
    assert {label for row in grid_of(answer) for label in row} == {1}
    assert abs(answer["mask"]["width"] - max(1, size[0] * cells)) <= 0.5
    assert abs(answer["mask"]["height"] - max(1, size[1] * cells)) <= 0.5


def test_a_fine_output_becomes_a_coarser_mask() -> None:
    """Of six columns three are kept, those in the middles of three equal parts (1, 3 and 5)."""
    assert grid_of(read(scores_of([[0, 1, 0, 2, 0, 1]]), maximum_side=3)) == [[1, 2, 1]]


@pytest.mark.parametrize(
    ("output", "options", "said"),
    [
        (np.zeros((1, 2, 2, 4), np.float32), {}, r"shape \[1, 2, 2, 4\], expected \[1, -1, -1, 3\]"),
        (np.zeros((2, 2, 2, 3), np.float32), {}, r"shape \[2, 2, 2, 3\]"),
        (np.zeros((1, 0, 2, 3), np.float32), {}, "no dimension of 0"),
        (np.full((1, 2, 2, 3), np.nan, np.float32), {}, "not finite"),
        (np.zeros((1, 2, 2, 3), np.int64), {}, "int64"),
        (np.zeros((1, 2, 2), np.float32), {"layout": "nhw", "chosen_by": "index"}, "float32.* not integers"),
        (np.full((1, 2, 2), 3), {"layout": "nhw", "chosen_by": "index"}, "holds 3 to 3, expected places in 3"),
        (np.full((1, 2, 2), -1), {"layout": "nhw", "chosen_by": "index"}, "holds -1 to -1"),
        (
            scores_of((np.indices((200, 201)).sum(axis=0) % 2).tolist()),
            {},
            "mask of 40200 runs, expected at most 16384",
        ),
    ],
)
def test_refuses_outputs_that_do_not_fit(output: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOutput, match=said):
        read(output, **options)


def test_refuses_to_label_what_was_cut_off() -> None:
    with pytest.raises(BadPipeline, match="cut the picture, expected how to be 'stretch' or 'letterbox'"):
        read(scores_of(GRID), placement=Placement(left=-0.5, top=0.0, width=2.0, height=1.0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"threshold": 0.5}, "just where chosen_by is 'threshold'"),
        ({"chosen_by": "threshold", "labels": ["a", "b"]}, "threshold is None"),
        ({"chosen_by": "threshold", "threshold": 0.5}, "tells 2 labels apart, found 3"),
        ({"layout": "nhw"}, "layout 'nhw' has one channel"),
        ({"labels": ["a", "b", "a"]}, "no two the same"),
        ({"labels": ["a"]}, "labels"),
        ({"maximum_side": 1_025}, "maximum_side"),
    ],
)
def test_refuses_parameters_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        read(scores_of(GRID), **options)


Drawn = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 2), min_size=width, max_size=width), min_size=1, max_size=6)
)


@given(Drawn)
def test_runs_become_the_same_cells_again(grid: Grid) -> None:
    runs = encode_runs(np.array(grid))
    assert all(one[0] != next_[0] for one, next_ in pairwise(runs))
    written = {"mask": {**mask(grid)["mask"], "runs": runs}}
    assert parse_mask(written, what="mask").cells.tolist() == grid == grid_of(written)


@given(Drawn, st.data())
def test_the_overlap_of_a_label_is_its_share_of_common_cells(drawn: Grid, data: st.DataObject) -> None:
    width = len(drawn[0])
    row = st.lists(st.integers(0, 2), min_size=width, max_size=width)
    found = data.draw(st.lists(row, min_size=len(drawn), max_size=len(drawn)))
    pairs = [pair for rows in zip(found, drawn, strict=True) for pair in zip(*rows, strict=True)]
    expected = {
        LABELS[label]: sum(pair == (label, label) for pair in pairs) / sum(label in pair for pair in pairs)
        for label in range(3)
        if any(label in pair for pair in pairs)
    }
    ratios = measure_label_ious(parse_mask(mask(found), what=""), drawn=parse_mask(mask(drawn), what=""))
    assert ratios == pytest.approx(expected)
    verdict = IOU.compare(mask(found), expected=mask(drawn))
    assert verdict.score == pytest.approx(sum(expected.values()) / len(expected))
    assert verdict.passed is (verdict.score >= 0.5)


def test_a_coarse_mask_is_judged_on_the_grid_that_was_drawn() -> None:
    fine = mask([[0, 0, 1, 1], [0, 0, 1, 1]])
    assert IOU.compare(mask([[0, 1]]), expected=fine).score == 1.0
    assert IOU.compare(fine, expected=mask([[0, 1]])).score == 1.0
    assert IOU.compare(mask([[1, 0]]), expected=fine).score == 0.0


def test_labels_are_compared_by_name() -> None:
    assert IOU.compare(mask([[0, 1]], labels=["road", "sky"]), expected=mask([[1, 0]])).score == 1.0
    assert IOU.compare(mask([[0, 0]], labels=["road", "sky"]), expected=mask([[0, 0]])).score == 0.0


def test_the_verdict_gives_its_numbers_in_words() -> None:
    """Half of the sky was found; what was taken for a road is none."""
    assert IOU.compare(mask([[0, 1]]), expected=mask([[0, 0]])).words == (
        "mean intersection over union 0.250, at least 0.5 wanted; least of 2 labels: road 0.000"
    )


def damaged(**fields: object) -> Answer:
    return {"mask": {**mask(GRID)["mask"], **fields}}


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({}, "mask"),
        (None, "null|None|object"),
        (damaged(runs=[]), "runs"),
        (damaged(runs=[[0, 11]]), "runs cover 11 cells, expected 4 x 3"),
        (damaged(runs=[[3, 12]]), "label 3, expected a place in 3 labels"),
        (damaged(runs=[[0, 0], [0, 12]]), "runs"),
        (damaged(runs=[[-1, 12]]), "runs"),
        (damaged(runs=[[0, 12.5]]), "runs"),
        (damaged(width=16_384, height=16_384, runs=[[0, 1]]), "a mask of 268435456 cells"),
        (damaged(labels=["a", "a", "b"]), "no two the same"),
    ],
)
def test_refuses_an_expected_answer_that_is_no_mask(expected: object, said: str) -> None:
    with pytest.raises(BadPipeline, match=rf"mask\.iou: expected answer: .*({said})"):
        IOU.compare(mask(GRID), expected=expected)


def test_answers_are_put_in_words() -> None:
    assert describe_mask(mask(GRID)) == "road 42 %, car 33 %, sky 25 %"
    assert describe_mask(mask([[0, 1, 2, 3, 4]], labels=list("abcde"))) == "a 20 %, b 20 %, c 20 %, d 20 % …"
