"""How does a command show its result: to a person as a sentence or a table, to a script as JSON?

What the fleet or a device says is shown as text only: it may not move the cursor, and it is no markup.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

_Row = TypeVar("_Row")
Columns = Mapping[str, Callable[[_Row], object]]
"""Heading, and what stands under it."""

_UNBOUNDED = 10_000
"""Width where nobody looks: a program that reads lines wants none of them folded."""


def print_result(result: object, *, as_json: bool, text: str) -> None:
    """One result: `text`, or the object as one line of JSON."""
    print(msgspec.json.encode(result).decode() if as_json else text, flush=True)


def print_table(
    result: object, rows: Sequence[_Row], columns: Columns[_Row], *, as_json: bool, empty: str = "none"
) -> None:
    """Rows as a table, or the result as one line of JSON. `empty` is said, on standard error, where there are none."""
    if as_json:
        print(msgspec.json.encode(result).decode(), flush=True)
    elif not rows:
        print(empty, file=sys.stderr)
    else:
        console = Console(width=None if sys.stdout.isatty() else _UNBOUNDED)
        with console.capture() as drawn:
            console.print(table(rows, columns))
        print(drawn.get(), end="", flush=True)


def table(rows: Iterable[_Row], columns: Columns[_Row]) -> Table:
    """A table without frames."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns:
        drawn.add_column(heading, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(_cell(look(row))) for look in columns.values()))
    return drawn


def listing(pairs: Mapping[str, object]) -> str:
    """Names and values, one a line; values begin in the same column."""
    width = max(map(len, pairs))
    return "\n".join(f"{name:<{width}}  {_cell(value)}" for name, value in pairs.items())


@contextmanager
def upload_progress(what: str, *, total_bytes: int) -> Iterator["Counted"]:
    """A bar on standard error while bytes go out; nothing where that is no terminal."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as progress:
        yield Counted(progress, progress.add_task(what, total=total_bytes))


class Counted:
    """Counts the bytes that pass through it."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def pass_on(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """The same parts, counted."""
        for part in parts:
            yield part
            self._progress.advance(self._task, len(part))


def when(seconds: float | None) -> str:
    """A time as people write it, in UTC."""
    return "never" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def printable(text: str) -> str:
    """The text on one line, with nothing in it that a terminal would obey."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return printable(str(value))
