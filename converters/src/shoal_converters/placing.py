"""How do files come into a folder, one after the other, as a recorder or a camera would put them there?"""

import time
from pathlib import Path

from shoal_converters.errors import BuildFailed


class Pace:
    """Places a file every `pace_s` seconds, the first at once."""

    def __init__(self, out: Path, *, pace_s: float) -> None:
        self._out = out
        self._pace_s = pace_s
        self._due_s = time.monotonic()

    def place(self, name: str, content: bytes) -> Path:
        """Wait until it is time, and place a file.

        Who watches the folder sees it whole or not at all: until it is complete its name begins with a dot.

        Raises:
            BuildFailed: the folder can't be written.
        """
        time.sleep(max(0.0, self._due_s - time.monotonic()))
        self._due_s += self._pace_s
        placed = self._out / name
        unfinished = self._out / f".{name}"
        try:
            self._out.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(content)
            unfinished.replace(placed)
        except OSError as error:
            raise BuildFailed(f"{placed}: {error}") from error
        return placed
