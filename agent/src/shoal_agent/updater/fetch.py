"""How does a sealed file come over a line that breaks, stalls or lies?

It grows as `<digest>.part` in the store. Each chunk is compared with its digest in the manifest as it arrives; the
start of a chunk that a broken line left behind is kept, to go on from there, and is dropped alone if the finished chunk
turns out wrong. Nothing past the file's size is read.
"""

import random
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from shoal_wire import paths
from shoal_wire.errors import Damaged
from shoal_wire.manifest import SealedFile

from shoal_agent.slots import stored
from shoal_agent.updater.chunks import chunk_ranges, is_chunk
from shoal_agent.updater.errors import Refused, TryLater
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.records import Records
from shoal_agent.updater.verify import find_damage

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
_JITTER = random.SystemRandom()


class Source(Protocol):
    """Where sealed files come from."""

    @property
    def url(self) -> str:
        """What paths are appended to."""

    def get(self, url: str, *, start: int = 0) -> AbstractContextManager[Answer]:
        """Ask for `url` from byte `start` on. Raises TryLater."""


class Patience(NamedTuple):
    """How often a line may break, one time after another, before the updater ends and is started again later."""

    tries: int = 3
    first_pause_s: float = 2.0
    """Doubled each time, and spread by half of it either way, so that a fleet's boards don't come back at once."""


class Watch(NamedTuple):
    """Who is told while a file comes."""

    pulse: Callable[[], None]
    """Called often. What it raises ends the fetch, which can go on later."""
    pause: Callable[[float], None]
    """Waits for so many seconds; raises as `pulse` does."""
    fetched: Callable[[int], None]
    """Told the number of bytes that are on disk and verified since the last call."""


class AskedToWait(TryLater):
    """The fleet is busy and said when to come again."""

    def __init__(self, message: str, *, wait_s: float) -> None:
        """`wait_s`: as long as the fleet said."""
        super().__init__(message)
        self.wait_s = wait_s


_BUSY = frozenset((429, 503))

MAX_DAMAGED = 3
"""Chunks or answers that may be wrong before the file is given up: the fleet's copy is damaged then."""


class Part:
    """The file as far as it has come."""

    def __init__(self, file: SealedFile, *, records: Records) -> None:
        """Verify what an earlier start of the updater left."""
        self._file, self._files = file, records.files
        self._path = records.part(file.ciphertext_sha256)
        self._ranges = chunk_ranges(file)
        self._chunk = 0
        self._buffer = bytearray()
        self._resume()

    @property
    def position(self) -> int:
        """Bytes that are here, which is where to go on."""
        return self._file.ciphertext_bytes if self.is_whole else self._ranges[self._chunk][0] + len(self._buffer)

    @property
    def is_whole(self) -> bool:
        """Whether every chunk is here."""
        return self._chunk == len(self._ranges)

    def restart(self) -> None:
        """Begin again: the answer starts at the first byte."""
        self._chunk, self._buffer = 0, bytearray()

    def add(self, piece: bytes) -> int:
        """Take the bytes that follow; returns how many of them finished chunks. What is too much is left.

        Raises:
            Damaged: a chunk isn't what was sealed. It is dropped; those before it stay.
        """
        done = 0
        view = memoryview(piece)
        while view and not self.is_whole:
            start, end = self._ranges[self._chunk]
            missing = end - start - len(self._buffer)
            self._buffer += view[:missing]
            view = view[missing:]
            if len(self._buffer) == end - start:
                done += self._finish_chunk(start)
        return done

    def keep(self) -> None:
        """Write the start of the chunk that isn't whole yet, to go on from there after a restart."""
        if self._buffer:
            self._files.append(self._path, bytes(self._buffer), at=self._ranges[self._chunk][0])

    def _finish_chunk(self, start: int) -> int:
        data, self._buffer = bytes(self._buffer), bytearray()
        if not is_chunk(self._file, data, index=self._chunk):
            raise Damaged(
                f"file {self._file.name}: chunk {self._chunk} of {len(self._ranges)} came other than it was sealed"
            )
        self._files.append(self._path, data, at=start)
        self._chunk += 1
        return len(data)

    def _resume(self) -> None:
        size_bytes = self._files.size(self._path)
        if size_bytes > self._file.ciphertext_bytes:
            return
        for index, (start, end) in enumerate(self._ranges):
            if start >= size_bytes:
                return
            data = self._files.read_range(self._path, start=start, size=end - start)
            if len(data) < end - start:
                self._buffer = bytearray(data)
                return
            if not is_chunk(self._file, data, index=index):
                return
            self._chunk = index + 1


def fetch_file(file: SealedFile, *, source: Source, records: Records, watch: Watch, patience: Patience) -> None:
    """Put a sealed file into the store, whole and verified.

    Raises:
        AskedToWait: the fleet is busy, and said for how long.
        TryLater: the line is down. What has come is kept.
        Refused: the fleet's copy is another file, or the manifest contradicts itself.
    """
    part = Part(file, records=records)
    failures, damaged = 0, 0
    while not part.is_whole:
        before = part.position
        try:
            _receive(part, file, source=source, watch=watch)
        except Damaged as error:
            damaged += 1
            if damaged == MAX_DAMAGED:
                raise Refused(f"{error}; tried {damaged} times") from error
            watch.pause(_spread(patience.first_pause_s))
        except AskedToWait:
            raise
        except TryLater:
            failures = 1 if part.position > before else failures + 1
            if failures >= patience.tries:
                raise
            watch.pause(_spread(patience.first_pause_s * 2 ** (failures - 1)))
    _accept(file, records=records, watch=watch)


def _receive(part: Part, file: SealedFile, *, source: Source, watch: Watch) -> None:
    """Read one answer as far as it goes."""
    try:
        with source.get(f"{source.url}{paths.SEALED}{file.ciphertext_sha256}", start=part.position) as answer:
            if _first_byte(answer, file, asked=part.position) == 0:
                part.restart()
            for piece in answer.pieces:
                watch.pulse()
                if done := part.add(piece):
                    watch.fetched(done)
                if part.is_whole:
                    return
        raise TryLater(f"file {file.name}: the answer ended at byte {part.position} of {file.ciphertext_bytes}")
    finally:
        part.keep()


def _first_byte(answer: Answer, file: SealedFile, *, asked: int) -> int:
    """Where the answer starts in the file.

    Raises:
        Damaged: the fleet's file has another size, or the answer starts elsewhere.
        AskedToWait: a status that says so.
        TryLater: any other status.
    """
    what = f"file {file.name}"
    if answer.status == 416:
        raise Damaged(f"{what}: expected {file.ciphertext_bytes} bytes, the fleet has at most {asked}")
    if answer.status in _BUSY and answer.retry_after_s is not None:
        wait_s = answer.retry_after_s
        raise AskedToWait(f"{what}: the fleet is busy and asked to come again in {wait_s:.0f} s", wait_s=wait_s)
    if answer.status not in (200, 206):
        raise TryLater(f"{what}: the fleet answered with status {answer.status}")
    first, total = 0, answer.length_bytes
    if answer.status == 206:
        match = _CONTENT_RANGE.fullmatch(answer.content_range or "")
        if match is None:
            raise TryLater(f"{what}: an answer in part without its range")
        first, total = int(match[1]), int(match[3])
    if total is not None and total != file.ciphertext_bytes:
        raise Damaged(f"{what}: expected {file.ciphertext_bytes} bytes, the fleet has {total}")
    if first not in (0, asked):
        raise Damaged(f"{what}: asked from byte {asked}, the answer starts at {first}")
    return first


def _accept(file: SealedFile, *, records: Records, watch: Watch) -> None:
    path = records.part(file.ciphertext_sha256)
    damage = find_damage(file, path, files=records.files, pulse=watch.pulse)
    if damage is not None:
        records.files.remove(path)
        raise Refused(damage)
    records.files.move(path, stored(records.state, file.ciphertext_sha256))


def _spread(pause_s: float) -> float:
    return pause_s * _JITTER.uniform(0.5, 1.5)
