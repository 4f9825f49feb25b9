"""Which rows of a batch are new? A reader that takes a stream in order is the judge."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.telemetry.watermark import Advance, advance
from shoal_wire.errors import Malformed
from shoal_wire.messages import Batch, Lost

STREAM = "0" * 32


def batch(*, first: int, rows: int, lost: tuple[int, int] | None = None) -> Batch:
    return Batch(
        device="d-board",
        stream=STREAM,
        first=first,
        rows=(msgspec.Raw(b"{}"),) * rows,
        lost=None if lost is None else Lost(*lost, reason="full"),
    )


@pytest.mark.parametrize(
    ("given_batch", "watermark", "expected"),
    [
        pytest.param(batch(first=1, rows=3), 0, Advance(skip=0, lost=0, watermark=3, is_gap=False), id="first batch"),
        pytest.param(batch(first=4, rows=2), 3, Advance(skip=0, lost=0, watermark=5, is_gap=False), id="what follows"),
        pytest.param(batch(first=1, rows=3), 3, Advance(skip=3, lost=0, watermark=3, is_gap=False), id="sent again"),
        pytest.param(batch(first=2, rows=4), 3, Advance(skip=2, lost=0, watermark=5, is_gap=False), id="overlaps"),
        pytest.param(batch(first=5, rows=2), 3, Advance(skip=2, lost=0, watermark=3, is_gap=True), id="gap"),
        pytest.param(batch(first=4, rows=0), 3, Advance(skip=0, lost=0, watermark=3, is_gap=False), id="empty"),
        pytest.param(batch(first=9, rows=0), 3, Advance(skip=0, lost=0, watermark=3, is_gap=True), id="empty, ahead"),
        pytest.param(
            batch(first=7, rows=1, lost=(4, 6)), 3, Advance(skip=0, lost=3, watermark=7, is_gap=False), id="loss"
        ),
        pytest.param(
            batch(first=7, rows=0, lost=(4, 6)), 3, Advance(skip=0, lost=3, watermark=6, is_gap=False), id="loss alone"
        ),
        pytest.param(
            batch(first=7, rows=1, lost=(2, 6)),
            4,
            Advance(skip=0, lost=2, watermark=7, is_gap=False),
            id="partly known",
        ),
        pytest.param(
            batch(first=7, rows=2, lost=(4, 6)), 7, Advance(skip=1, lost=0, watermark=8, is_gap=False), id="loss known"
        ),
        pytest.param(
            batch(first=7, rows=1, lost=(5, 6)), 3, Advance(skip=1, lost=0, watermark=3, is_gap=True), id="loss ahead"
        ),
    ],
)
def test_takes_what_follows_and_skips_what_it_has(given_batch: Batch, watermark: int, expected: Advance) -> None:
    assert advance(given_batch, watermark=watermark) == expected


@pytest.mark.parametrize("lost", [(4, 5), (4, 7), (6, 4), (7, 7)])
def test_refuses_a_loss_that_does_not_end_right_before_the_first_row(lost: tuple[int, int]) -> None:
    with pytest.raises(Malformed, match="lost"):
        advance(batch(first=7, rows=1, lost=lost), watermark=3)


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[int, set[int], list[tuple[int, int]]]:
    """Length of a stream, the numbers that its device dropped, and runs (first, last) in the order of their arrival."""
    length = draw(st.integers(1, 30))
    dropped = draw(st.sets(st.integers(1, length)))
    runs = draw(
        st.lists(st.tuples(st.integers(1, length), st.integers(0, 8)).map(lambda run: (run[0], run[0] + run[1])))
    )
    return length, dropped, runs


@given(arrivals())
def test_any_order_repetition_and_loss_ends_with_each_row_once(
    case: tuple[int, set[int], list[tuple[int, int]]],
) -> None:
    length, dropped, runs = case
    stored: list[int] = []
    lost = 0
    watermark = 0
    # Whatever came, the device sends in the end what is still missing, row by row.
    for first, last in [*runs, *((one, one) for one in range(1, length + 1))]:
        for piece in pieces(first, min(last, length), dropped=dropped):
            step = advance(piece, watermark=watermark)
            if not step.is_gap:
                stored += range(piece.first, piece.first + len(piece.rows))[step.skip :]
                lost += step.lost
            assert step.watermark >= watermark
            watermark = step.watermark
    assert watermark == length
    assert stored == [number for number in range(1, length + 1) if number not in dropped]
    assert lost == len(dropped)


def pieces(first: int, last: int, *, dropped: set[int]) -> list[Batch]:
    """The batches that carry a run: rows in a row each, with the losses before them."""
    found: list[Batch] = []
    number = first
    while number <= last:
        start = number
        while number <= last and number in dropped:
            number += 1
        loss = (start, number - 1) if number > start else None
        begin = number
        while number <= last and number not in dropped:
            number += 1
        found.append(batch(first=begin, rows=number - begin, lost=loss))
    return found
