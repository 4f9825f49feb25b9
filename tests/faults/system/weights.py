"""Does anything hold weights of a model in plain? Finds every piece of 64 bytes, wherever it begins."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

WORD = 8
WHOLE_WORDS = 6
"""In a row: a piece of 64 bytes has seven whole words of its file, wherever it begins."""
COMMON = 4
"""A word that a model has more often than this is no mark of it: zeros, say."""
DISTINCT = 20
"""Different bytes in a piece of 48; weights have more, tables of small numbers have fewer."""
SMALL_MAPPING = 512 << 20


class Weights:
    """The plaintext of model files, for being recognised."""

    def __init__(self, files: Iterable[bytes]) -> None:
        self._plain = [raw[: len(raw) // WORD * WORD] for raw in files]
        words = np.concatenate([np.frombuffer(raw, "<u8") for raw in self._plain])
        values, counts = np.unique(words, return_counts=True)
        self._marks = values[counts <= COMMON]
        assert len(self._marks) > 1000, "models with next to nothing in them can't be recognised"

    def are_in(self, data: bytes) -> bool:
        """Whether a piece of them is in there."""
        return any(self._is_piece(data[at : at + WORD * WHOLE_WORDS]) for at in self._candidates(data))

    def found_below(self, folders: Iterable[Path]) -> list[str]:
        """Files that hold a piece."""
        return [str(path) for path in files_below(folders) if self.are_in(_read(path))]

    def are_in_memory_of(self, pid: int) -> bool:
        """Whether a process has them in memory that it may write to. Root only."""
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for begin, size in _writable(pid):
                try:
                    memory.seek(begin)
                    data = memory.read(size)
                except OSError:  # a mapping that can't be read, or is gone
                    continue
                if self.are_in(data):
                    return True
        return False

    def _candidates(self, data: bytes) -> Iterator[int]:
        for shift in range(WORD):
            count = (len(data) - shift) // WORD
            words = np.frombuffer(data, "<u8", count=max(0, count), offset=shift if count > 0 else 0)
            places = np.searchsorted(self._marks, words)
            places[places == len(self._marks)] = 0
            for index in np.flatnonzero(self._marks[places] == words):
                yield shift + int(index) * WORD

    def _is_piece(self, piece: bytes) -> bool:
        is_telling = len(piece) == WORD * WHOLE_WORDS and len(set(piece)) >= DISTINCT
        return is_telling and any(piece in raw for raw in self._plain)


def files_below(folders: Iterable[Path]) -> Iterator[Path]:
    """Ordinary files that this user may read."""
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else [folder]:
            if path.is_file() and not path.is_symlink():
                yield path


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:  # removed meanwhile
        return b""


def _writable(pid: int) -> Iterator[tuple[int, int]]:
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, rights, *_ = line.split()
        begin, end = (int(number, 16) for number in place.split("-"))
        if rights.startswith("rw") and end - begin <= SMALL_MAPPING:
            yield begin, end - begin
