"""Do overlaps and places of boxes follow from counted cells and from arithmetic by hand?"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.boxes import clip_to_picture, measure_iou, move_to_picture, pair_boxes
from shoal_agent.front.operations.values import Placement

Cell = st.integers(0, 12)
Rectangle = st.tuples(Cell, Cell, st.integers(1, 8), st.integers(1, 8))


def cells_of(rectangle: tuple[int, int, int, int]) -> set[tuple[int, int]]:
    left, top, width, height = rectangle
    return {(x, y) for x in range(left, left + width) for y in range(top, top + height)}


def corners_of(rectangle: tuple[int, int, int, int]) -> list[float]:
    left, top, width, height = rectangle
    return [left / 20, top / 20, (left + width) / 20, (top + height) / 20]


@given(Rectangle, st.lists(Rectangle, min_size=1, max_size=5))
def test_iou_is_the_share_of_common_cells(
    one: tuple[int, int, int, int], others: list[tuple[int, int, int, int]]
) -> None:
    counted = [len(cells_of(one) & cells_of(other)) / len(cells_of(one) | cells_of(other)) for other in others]
    measured = measure_iou(np.array(corners_of(one)), np.array([corners_of(other) for other in others]))
    np.testing.assert_allclose(measured, counted, atol=1e-12)


def test_iou_of_boxes_without_an_area_is_0() -> None:
    assert measure_iou(np.zeros(4), np.zeros((2, 4))).tolist() == [0.0, 0.0]


def test_those_that_overlap_most_are_paired_first() -> None:
    """The first of those seen covers half of each that was found; the second is one of them."""
    seen = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.5, 1.0]])
    found = np.array([[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]])
    assert sorted(pair_boxes(seen, found)) == pytest.approx([0.5, 1.0])


@given(st.lists(st.tuples(Rectangle, Rectangle), min_size=1, max_size=3))
def test_every_box_is_in_one_pair(pairs: list[tuple[tuple[int, int, int, int], tuple[int, int, int, int]]]) -> None:
    seen = np.array([corners_of(one) for one, _ in pairs])
    found = np.array([corners_of(other) for _, other in pairs])
    table = [measure_iou(box, found) for box in seen]
    possible = [
        sorted(table[row][column] for row, column in enumerate(order))
        for order in itertools.permutations(range(len(pairs)))
    ]
    assert any(np.allclose(sorted(pair_boxes(seen, found)), ratios) for ratios in possible)


def test_places_in_the_input_become_places_in_the_picture() -> None:
    """The input shows the middle half of the picture's width: its left edge is at a quarter of the picture."""
    cut = Placement(left=-0.5, top=0.0, width=2.0, height=1.0)
    assert move_to_picture(np.array([[0.0, 0.25], [1.0, 1.0]]), cut).tolist() == [[0.25, 0.25], [0.75, 1.0]]


def test_a_box_ends_at_the_edges_of_the_picture() -> None:
    below_black = Placement(left=0.0, top=0.5, width=1.0, height=0.5)
    assert clip_to_picture(np.array([0.25, 0.25, 0.5, 0.75]), below_black).tolist() == [[0.25, 0.0], [0.5, 0.5]]
