"""How do the bytes of a table become the input of a model?"""

import csv
import io
import re
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.outputs import Finite, Name
from shoal_agent.front.operations.values import Prepared, Rows, Table

MAX_BYTES = 16 << 20
MAX_COLUMNS = 4_096
MAX_ROWS = 1 << 20
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
"""Python's own `float` would take "1_000", "nan" and digits of other scripts too."""
_SHOWN = 40

Columns = Annotated[int, Meta(ge=1, le=MAX_COLUMNS)]
PerColumn = Annotated[tuple[Finite, ...], Meta(max_length=MAX_COLUMNS)]


class DecodeCsv(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`table.decode_csv`: rows of numbers with a comma between them, in UTF-8, as RFC 4180 has it.

    A number is written with a point and perhaps an exponent; spaces around it are no part of it. Lines may end in CR LF
    or LF. Empty lines at the end are no rows.
    """

    takes: ClassVar[type] = bytes
    gives: ClassVar[type] = Table

    has_header: bool = False
    """Whether the first line names the columns; it is skipped."""
    max_rows: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = 10_000
    max_bytes: Annotated[int, Meta(ge=1, le=MAX_BYTES)] = 1 << 20

    def apply(self, raw: bytes) -> Table:
        """Read a whole file.

        Raises:
            BadInput: longer than allowed, not UTF-8, no rows, rows of different lengths, or a value that isn't a finite
                number; row and column are named, both counted from 1, a header not counted.
        """
        if len(raw) > self.max_bytes:
            raise BadInput(f"table: {len(raw)} bytes, expected at most {self.max_bytes}")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadInput(f"table: byte {error.start} is not UTF-8") from None
        rows: list[list[float]] = []
        try:
            lines = csv.reader(io.StringIO(text.rstrip("\r\n"), newline=""), strict=True)
            if self.has_header:
                next(lines, None)
            for number, row in enumerate(lines, start=1):
                if number > self.max_rows:
                    raise BadInput(f"table: more than {self.max_rows} rows")
                rows.append(_parse_row(row, number=number, columns=len(rows[0]) if rows else len(row)))
        except csv.Error as error:
            raise BadInput(f"table: row {len(rows) + 1}: {error}") from None
        if not rows:
            raise BadInput("table: no rows, expected 1 or more")
        return Table(values=np.array(rows, dtype=np.float64))


class FeedTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`table.feed`: a table as the input `input`: `(value - mean) / std`, column by column, computed in float64."""

    takes: ClassVar[type] = Table
    gives: ClassVar[Any] = Prepared[Rows]

    input: Name
    columns: Columns
    rows: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = 1
    layout: Literal["row", "sequence", "channels"] = "row"
    """The input's shape: [1, columns] of one row, [1, rows, columns] or [1, columns, rows]."""
    dtype: Literal["float32", "float64"] = "float32"
    mean: PerColumn = ()
    """One for each column, or none: 0."""
    std: PerColumn = ()
    """One for each column, or none: 1."""

    def __post_init__(self) -> None:
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (0, self.columns):
                raise ValueError(f"{name} has {len(values)} values, expected one for each of {self.columns} columns")
        if any(value <= 0 for value in self.std):
            raise ValueError(f"std: {min(self.std):g}, expected more than 0")
        if self.layout == "row" and self.rows != 1:
            raise ValueError(f"rows is {self.rows}, expected 1 with the layout 'row'")

    def apply(self, table: Table) -> Prepared[Rows]:
        """Lay it out; the model is called once.

        Raises:
            BadInput: another number of rows or columns, or a value that `dtype` can't hold.
        """
        if table.values.shape != (self.rows, self.columns):
            rows, columns = table.values.shape
            raise BadInput(
                f"table: {rows} rows of {columns} columns, expected {self.rows} rows of {self.columns} columns"
            )
        mean, std = np.array(self.mean or 0.0), np.array(self.std or 1.0)
        with np.errstate(over="ignore"):
            values = ((table.values - mean) / std).astype(self.dtype)
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0] + 1
            raise BadInput(f"table: row {row}, column {column}: too large for {self.dtype}")
        shaped = {"row": values, "sequence": values[np.newaxis], "channels": values.T[np.newaxis]}[self.layout]
        fed = {self.input: np.ascontiguousarray(shaped)}
        return Prepared(calls=[fed], context=Rows(fed=fed))


def _parse_row(row: list[str], *, number: int, columns: int) -> list[float]:
    if not row or len(row) > MAX_COLUMNS:
        raise BadInput(f"table: row {number} has {len(row)} columns, expected 1 to {MAX_COLUMNS}")
    if len(row) != columns:
        raise BadInput(f"table: row {number} has {len(row)} columns, expected {columns} as in the first")
    values = []
    for column, text in enumerate(row, start=1):
        value = float(text) if _NUMBER.fullmatch(text := text.strip(" \t")) else float("nan")
        if not np.isfinite(value):
            raise BadInput(f"table: row {number}, column {column}: {text[:_SHOWN]!r} is not a finite number")
        values.append(value)
    return values
