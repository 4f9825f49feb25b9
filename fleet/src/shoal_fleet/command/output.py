"""How does a command show its result: to a person as a sentence or a table, to a script as JSON?"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table


def print_result(result: object, *, as_json: bool, text: str) -> None:
    """One result: `text`, or the object as one line of JSON."""
    print(msgspec.json.encode(result).decode() if as_json else text, flush=True)


def print_table(rows: Sequence[dict[str, Any]], columns: dict[str, str], *, as_json: bool, empty: str) -> None:
    """Rows as a table of `columns` (key → heading), or all of them as one line of JSON."""
    if as_json:
        print(msgspec.json.encode(rows).decode(), flush=True)
    elif not rows:
        print(empty)
    else:
        Console().print(table(rows, columns))


def table(rows: Iterable[dict[str, Any]], columns: dict[str, str]) -> Table:
    """A table without frames, for a terminal of any width."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for heading in columns.values():
        drawn.add_column(heading, overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(row.get(key)) for key in columns))
    return drawn


@contextmanager
def upload_progress(what: str, *, total_bytes: int) -> Iterator["Counted"]:
    """A bar on standard error while bytes go out; nothing where that is no terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty(), transient=True) as progress:
        yield Counted(progress, progress.add_task(what, total=total_bytes))


class Counted:
    """Counts the bytes that pass through it."""

    def __init__(self, progress: Progress, task: Any) -> None:
        self._progress, self._task = progress, task

    def pass_on(self, parts: Iterable[bytes]) -> Iterator[bytes]:
        """The same parts, counted."""
        for part in parts:
            yield part
            self._progress.advance(self._task, len(part))


def when(seconds: float | None) -> str:
    """A time as people write it, in UTC."""
    return "never" if not seconds else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.1f}"
    return str(value)
