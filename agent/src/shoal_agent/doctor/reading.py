"""How are small files of the kernel read, when they may be missing, empty or unwilling?"""

from pathlib import Path

MAX_CHARACTERS = 64 << 10


def read_text(path: Path) -> str:
    """The text of a file, stripped; empty where it can't be read."""
    try:
        with path.open(errors="replace") as file:
            return file.read(MAX_CHARACTERS).replace("\0", " ").strip()
    except OSError:
        return ""


def read_number(path: Path, *, base: int = 10) -> int | None:
    """The number in a file; None where there is none."""
    try:
        return int(read_text(path), base)
    except ValueError:
        return None


def read_field(path: Path, name: str) -> int | None:
    """The first number of the line that begins with `name`; None without such a line."""
    for line in read_text(path).splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return None
