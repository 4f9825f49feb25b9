"""Do the bytes of a table become the tensor that a model takes, and is every other file refused by row and column?"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.tables import DecodeCsv, FeedTable
from shoal_agent.front.operations.values import Table

CSV = DecodeCsv(max_rows=3, max_bytes=200)


def table(*rows: list[float]) -> Table:
    return Table(values=np.array(rows, dtype=np.float64))


@pytest.mark.parametrize(
    ("raw", "rows"),
    [
        (b"1,2.5,-3e2\n4,.5,6.\n", [[1, 2.5, -300], [4, 0.5, 6]]),
        (b"1,2\r\n3,4\r\n\r\n", [[1, 2], [3, 4]]),
        (b"\xef\xbb\xbf 1 ,\t+2", [[1, 2]]),
        (b'"1","2"\n', [[1, 2]]),
        (b"7", [[7]]),
        (b"1E3\n1e-3", [[1000], [0.001]]),
    ],
)
def test_reads_rows_of_numbers(raw: bytes, rows: list[list[float]]) -> None:
    found = CSV.apply(raw).values
    assert found.dtype == np.float64
    assert found.tolist() == rows


def test_a_header_is_skipped_where_there_is_one() -> None:
    raw = b"time,speed\n1,2\n"
    assert DecodeCsv(has_header=True).apply(raw).values.tolist() == [[1, 2]]
    with pytest.raises(BadInput, match="row 1, column 1: 'time' is not a finite number"):
        DecodeCsv().apply(raw)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "no rows"),
        (b"\n\n", "no rows"),
        (b"1,2\n3", "row 2 has 1 columns, expected 2"),
        (b"1,2\n\n3,4", "row 2 has 0 columns"),
        (b"1,2\n3,nan", "row 2, column 2: 'nan' is not a finite number"),
        (b"1,inf", "row 1, column 2"),
        (b"1,1e999", "row 1, column 2: '1e999' is not a finite number"),
        (b"1,,3", "row 1, column 2: ''"),
        (b"1;2", "row 1, column 1: '1;2'"),
        (b"1_000", "'1_000'"),
        ("１".encode(), "row 1, column 1"),
        (b"0x10", "'0x10'"),
        (b"1\n2\n3\n4", "more than 3 rows"),
        (b"1" * 201, "201 bytes, expected at most 200"),
        (b"1,\xff", "byte 2 is not UTF-8"),
        (b'1,"2', "row 1: "),
    ],
)
def test_refuses_what_is_no_table_of_numbers(raw: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        CSV.apply(raw)


def test_a_header_alone_is_no_table() -> None:
    with pytest.raises(BadInput, match="no rows"):
        DecodeCsv(has_header=True).apply(b"a,b\n")


def test_a_long_text_of_digits_is_refused_at_once() -> None:
    with pytest.raises(BadInput, match="not a finite number"):
        DecodeCsv().apply(b"1" * 100_000 + b"x")


@given(st.lists(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2), min_size=1))
def test_numbers_are_read_as_they_were_written(rows: list[list[float]]) -> None:
    raw = "\n".join(",".join(repr(value) for value in row) for row in rows).encode()
    assert DecodeCsv().apply(raw).values.tolist() == rows


@given(st.binary(max_size=60))
def test_any_bytes_give_a_table_or_a_refusal(raw: bytes) -> None:
    try:
        values = DecodeCsv().apply(raw).values
    except BadInput:
        return
    assert values.size > 0
    assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("layout", "rows", "expected"),
    [
        ("row", 1, [[0.0, 1.0]]),
        ("sequence", 2, [[[0.0, 1.0], [1.0, 4.0]]]),
        ("channels", 2, [[[0.0, 1.0], [1.0, 4.0]]]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_columns_are_scaled_and_laid_out(layout: Any, rows: int, expected: Any, dtype: Any) -> None:
    step = FeedTable(input="in", columns=2, rows=rows, layout=layout, mean=(1.0, 10.0), std=(2.0, 0.5), dtype=dtype)
    prepared = step.apply(table(*[[1.0, 10.5], [3.0, 12.0]][:rows]))
    (call,) = prepared.calls
    wanted = np.array(expected, dtype=dtype)
    wanted = wanted.transpose(0, 2, 1) if layout == "channels" else wanted
    assert call["in"].tolist() == wanted.tolist()
    assert call["in"].dtype == np.dtype(dtype)
    assert call["in"].flags.c_contiguous
    assert prepared.context.fed is call


def test_without_mean_and_deviation_values_stay_as_they_are() -> None:
    (call,) = FeedTable(input="in", columns=3).apply(table([1.0, 2.0, 3.0])).calls
    assert call["in"].tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([[1.0, 2.0]], "1 rows of 2 columns, expected 1 rows of 3 columns"),
        ([[1.0, 2.0, 3.0]] * 2, "2 rows of 3 columns, expected 1 rows"),
        ([[1.0, 1e300, 3.0]], "row 1, column 2: too large for float32"),
    ],
)
def test_refuses_a_table_that_the_model_does_not_take(rows: list[list[float]], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        FeedTable(input="in", columns=3).apply(table(*rows))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"mean": (1.0,)}, "mean has 1 values, expected one for each of 3"),
        ({"std": (1.0, 2.0)}, "std has 2 values"),
        ({"std": (1.0, 0.0, 1.0)}, "std: 0, expected more than 0"),
        ({"rows": 2}, "rows is 2, expected 1"),
    ],
)
def test_refuses_parameters_that_contradict_one_another(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FeedTable(input="in", columns=3, **changed)
