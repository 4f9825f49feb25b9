"""Which rows of a table, or tables of a folder, are items?

`csv`: one file, an item for each row; its bytes are a CSV file of the header and that row. `sequences`: a folder of CSV
files with labels (see `labelled_files`), each an item: a row for each point in time.
"""

from collections.abc import Sequence
from functools import partial

from shoal_converters.datasets.found import Asked, Found, Loaded, Options, parse_options
from shoal_converters.datasets.labelled_files import LabelledFile, list_files
from shoal_converters.datasets.rows import parse_number, read_rows, write_rows
from shoal_converters.errors import BadData

SUFFIX = ".csv"


class TableOptions(Options, frozen=True, kw_only=True):
    """Of a table whose rows are items."""

    label: str | tuple[str, ...] = "label"
    """Column that holds the label, or those that hold the right values. A set without it has no labels."""
    columns: tuple[str, ...] = ()
    """Those that the model takes, in that order; empty: all others."""
    delimiter: str = ","


def find_rows(asked: Asked) -> list[Found]:
    """Rows of a table, named by their number from 1.

    Raises:
        BadData: not a CSV file with a header, no rows, no such column, or a cell that isn't a finite number.
        BadRecipe: an unknown option.
    """
    options = parse_options(asked, TableOptions)
    path = asked.place
    rows = read_rows(path, delimiter=options.delimiter)
    if not rows.cells:
        raise BadData(f"{path}: no rows")
    labels = (options.label,) if isinstance(options.label, str) else options.label
    has_labels = "label" in asked.options or set(labels) <= set(rows.header)
    label_at = [rows.column(name, of=path) for name in labels] if has_labels else []
    columns = options.columns or tuple(name for name in rows.header if name not in labels)
    column_at = [rows.column(name, of=path) for name in columns]
    found = []
    for number, cells in enumerate(rows.cells, 1):
        where = f"{path}: line {rows.numbers[number - 1]}"
        values = [cells[at] for at in column_at]
        for name, value in zip(columns, values, strict=True):
            parse_number(value, where=f"{where}: column {name!r}")
        label = _parse_label(options.label, [cells[at] for at in label_at], where=where)
        load = partial(Loaded, write_rows(columns, [values]), label)
        stratum = label if isinstance(label, str) else ""
        found.append(Found(name=f"row {number}", suffix=SUFFIX, stratum=stratum, load=load))
    return found


def _parse_label(asked: str | tuple[str, ...], cells: Sequence[str], *, where: str) -> object:
    if not cells:
        return None
    if isinstance(asked, str):
        return cells[0]
    return {
        name: parse_number(cell, where=f"{where}: column {name!r}") for name, cell in zip(asked, cells, strict=True)
    }


def find_sequences(asked: Asked) -> list[Found]:
    """CSV files with a header and at least one row of finite numbers; all of them with the same columns.

    Raises:
        BadData, BadRecipe: see `list_files`.
    """
    parse_options(asked, Options)
    files = list_files(asked.place, suffixes=(SUFFIX,))
    columns = read_rows(files[0].path).header
    return [
        Found(
            name=file.name,
            suffix=SUFFIX,
            stratum=file.label if isinstance(file.label, str) else "",
            load=partial(_load_sequence, file, columns=columns),
        )
        for file in files
    ]


def _load_sequence(file: LabelledFile, *, columns: tuple[str, ...]) -> Loaded:
    rows = read_rows(file.path)
    if rows.header != columns:
        raise BadData(f"{file.path}: columns {list(rows.header)}, expected {list(columns)} as in the first file")
    if not rows.cells:
        raise BadData(f"{file.path}: no rows")
    for number, cells in zip(rows.numbers, rows.cells, strict=True):
        for name, cell in zip(columns, cells, strict=True):
            parse_number(cell, where=f"{file.path}: line {number}: column {name!r}")
    return Loaded(file.path.read_bytes(), file.label)
