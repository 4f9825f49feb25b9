"""What was measured on a board, in a form that programs can read, and may it become part of its device profile?"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Emulated(ValueError):
    """Timings of an emulated board were offered for a profile."""


class Measured:
    """Appends rows to a file, one JSON object a line. Each says whether the board is emulated."""

    def __init__(self, file: Path | None, *, is_emulated: bool) -> None:
        """Without a `file` rows are only printed."""
        self._file = file
        self._is_emulated = is_emulated

    def add(self, what: str, value: float, *, unit: str) -> None:
        """Note one number. `unit`: as in s, ms, bytes."""
        row = {"what": what, "value": value, "unit": unit, "is_emulated": self._is_emulated, "at": int(time.time())}
        print(f"measured: {json.dumps(row)}")
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps(row) + "\n")

    @contextmanager
    def seconds(self, what: str) -> Iterator[None]:
        """Note how long a block takes; nothing where it raises."""
        began = time.monotonic()
        yield
        self.add(what, round(time.monotonic() - began, 2), unit="s")


def rows_for_profile(text: str) -> list[Mapping[str, Any]]:
    """The rows of a file of measurements, if they may enter a device profile.

    Raises:
        Emulated: a row is of an emulated board, whose timings say nothing of a real one.
    """
    rows = [json.loads(line) for line in text.splitlines() if line]
    for row in rows:
        if row["is_emulated"]:
            raise Emulated(f"{row['what']}: measured on an emulated board; timings of it never enter a profile")
    return rows
