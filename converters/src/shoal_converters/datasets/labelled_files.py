"""Which files of a folder are items of a set, and what does the folder say of each?

In one of four ways, looked for in this order:

- `labels.csv` in the folder, with a column `file` (relative to the folder). If `label` is the only other column, it is
  the label. With a column `start_s` a file may have many rows, and the list of them is its label. Else the label is the
  row: other columns by name.
- a folder for each label, with its files at any depth.
- a CSV file beside each file (`door.wav`, `door.csv`), whose rows are its label.
- files alone: no labels.

Numbers in rows are numbers; the columns `label` and `file` stay text.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal_converters.datasets.found import name_some
from shoal_converters.datasets.rows import Rows, read_rows
from shoal_converters.errors import BadData

LABELS = "labels.csv"
_FILE = "file"
_LABEL = "label"
_START = "start_s"


@dataclass(frozen=True, kw_only=True)
class LabelledFile:
    """A file, and what is said of it; None where nothing is."""

    path: Path
    name: str
    """Relative to the set's folder, with slashes."""
    label: object


def list_files(folder: Path, *, suffixes: Sequence[str]) -> list[LabelledFile]:
    """Items of a folder by name. Files with other suffixes, and those whose name begins with a dot, are none.

    Raises:
        BadData: no such folder, nothing in it, a label's folder without files, files beside the labels' folders, or
            a `labels.csv` that is broken or names a file that is missing or outside of the folder.
    """
    if not folder.is_dir():
        raise BadData(f"{folder}: no such folder")
    if (folder / LABELS).is_file():
        return _list_by_table(folder, suffixes=suffixes)
    folders = [path for path in _visible(folder) if path.is_dir()]
    loose = [path for path in _visible(folder) if _is_item(path, suffixes=suffixes)]
    if not folders:
        files = [LabelledFile(path=path, name=path.name, label=_read_beside(path)) for path in loose]
    elif loose:
        names = [path.name for path in loose]
        raise BadData(f"{folder}: files beside the folders of labels have no label: {name_some(names)}")
    else:
        files = [file for label in folders for file in _list_label(folder, label, suffixes=suffixes)]
    if not files:
        raise BadData(f"{folder}: empty, expected files that end in {', '.join(suffixes)}")
    return files


def locate(folder: Path, name: str, *, named_by: Path) -> Path:
    """The file that a list in a set names. Nothing outside of the set's folder is ever read for one.

    Raises:
        BadData: it leads outside (by `..`, from the root, by a link), or isn't there.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise BadData(f"{named_by}: names {name!r}, which lies outside of {folder}")
    if not path.is_file():
        raise BadData(f"{named_by}: names {name!r}, but there is no such file in {folder}")
    return path


def _list_label(folder: Path, label: Path, *, suffixes: Sequence[str]) -> list[LabelledFile]:
    paths = [path for path in sorted(label.rglob("*"), key=os.fsencode) if _is_item(path, suffixes=suffixes)]
    if not paths:
        raise BadData(f"{label}: no items of the label {label.name!r}, expected files in {', '.join(suffixes)}")
    return [LabelledFile(path=path, name=path.relative_to(folder).as_posix(), label=label.name) for path in paths]


def _list_by_table(folder: Path, *, suffixes: Sequence[str]) -> list[LabelledFile]:
    table = folder / LABELS
    rows = read_rows(table)
    at = rows.column(_FILE, of=table)
    by_file: dict[str, list[object]] = {}
    has_many = _START in rows.header
    for number, cells in enumerate(rows.cells):
        said = by_file.setdefault(cells[at], [])
        if said and not has_many:
            raise BadData(f"{table}: line {rows.numbers[number]}: {cells[at]!r} is named twice")
        row = _parse_row(rows, cells)
        said.append(row[_LABEL] if list(row) == [_LABEL] else row)
    if not by_file:
        raise BadData(f"{table}: names no file")
    files = []
    for name, said in sorted(by_file.items()):
        path = locate(folder, name, named_by=table)
        if path.suffix.lower() not in suffixes:
            raise BadData(f"{table}: names {name!r}, expected a file in {', '.join(suffixes)}")
        files.append(LabelledFile(path=path, name=name, label=said if has_many else said[0]))
    return files


def _parse_row(rows: Rows, cells: Sequence[str]) -> dict[str, float | str]:
    pairs = zip(rows.header, cells, strict=True)
    return {name: cell if name == _LABEL else _parse_cell(cell) for name, cell in pairs if name != _FILE}


def _parse_cell(cell: str) -> float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(cell)
    return cell


def _read_beside(path: Path) -> object:
    beside = path.with_suffix(".csv")
    if beside == path or not beside.is_file():
        return None
    rows = read_rows(beside)
    return [_parse_row(rows, cells) for cells in rows.cells]


def _visible(folder: Path) -> list[Path]:
    return sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=os.fsencode)


def _is_item(path: Path, *, suffixes: Sequence[str]) -> bool:
    return path.suffix.lower() in suffixes and not path.name.startswith(".") and path.is_file()
