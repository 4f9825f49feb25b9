"""What do the rows of a CSV file say, by the names of their columns?"""

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shoal_converters.datasets.found import read_bytes
from shoal_converters.errors import BadData


class Rows(NamedTuple):
    """Text of all cells; `numbers[i]` is the line of `cells[i]` in the file, for messages."""

    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]

    def column(self, name: str, *, of: Path) -> int:
        """Place of a column.

        Raises:
            BadData: there is none of that name.
        """
        if name not in self.header:
            raise BadData(f"{of}: no column {name!r}, found {list(self.header)}")
        return self.header.index(name)


def read_rows(path: Path, *, delimiter: str = ",") -> Rows:
    """All rows of a CSV file with a header; empty lines are skipped.

    Raises:
        BadData: unreadable, not UTF-8, no header, a column named twice, or a row with more or fewer cells.
    """
    try:
        text = read_bytes(path).decode("utf-8-sig")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        lines = [(reader.line_num, tuple(cell.strip() for cell in row)) for row in reader if row]
    except UnicodeDecodeError as error:
        raise BadData(f"{path}: not UTF-8 (byte {error.start})") from None
    except csv.Error as error:
        raise BadData(f"{path}: line {reader.line_num}: {error}") from None
    if not lines:
        raise BadData(f"{path}: empty, expected a line with the names of its columns")
    header = lines[0][1]
    if len(set(header)) < len(header):
        raise BadData(f"{path}: a column is named twice in {list(header)}")
    for number, cells in lines[1:]:
        if len(cells) != len(header):
            raise BadData(f"{path}: line {number} has {len(cells)} cells, expected {len(header)} as in the header")
    return Rows(header, tuple(cells for _, cells in lines[1:]), tuple(number for number, _ in lines[1:]))


def write_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    """A CSV file: UTF-8, comma, lines that end with a line feed."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def parse_number(cell: str, *, where: str) -> float:
    """The finite number of a cell. `where` names it in the message.

    Raises:
        BadData: empty, no number, infinite or NaN.
    """
    try:
        number = float(cell)
    except ValueError:
        raise BadData(f"{where}: {cell!r}, expected a number") from None
    if not math.isfinite(number):
        raise BadData(f"{where}: {cell!r}, expected a finite number")
    return number
