"""Is an update rid of files that only tuning wants, whatever becomes of them?

The source is a stand-in for the fleet's listener that implements the same interface, without sockets.
"""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from shoal_agent.files import DiskFiles
from shoal_agent.updater.errors import Superseded, TryLater
from shoal_agent.updater.fetch import Patience, Watch
from shoal_agent.updater.http_client import Answer
from shoal_agent.updater.records import Records
from shoal_agent.updater.spares import LIMIT_S, fetch_spares
from shoal_wire.manifest import SealedFile
from shoal_wire.sealed_file import digest, seal

CHUNK = 1024


def seal_file(name: str) -> tuple[SealedFile, bytes]:
    parts = list(seal(name.encode() * 1000, bytes(32), chunk_bytes=CHUNK))
    digests = digest(parts)
    file = SealedFile(
        name=name,
        role="model",
        plaintext_sha256="0" * 64,
        plaintext_bytes=1000 * len(name),
        ciphertext_sha256=digests.ciphertext_sha256,
        ciphertext_bytes=digests.ciphertext_bytes,
        chunk_bytes=CHUNK,
        chunk_sha256s=digests.chunk_sha256s,
        suite="aes-256-gcm",
    )
    return file, b"".join(parts)


SEALED = [seal_file(name) for name in ("one", "two", "three")]
ONE, TWO, THREE = (file.ciphertext_sha256 for file, _ in SEALED)


class Shelf:
    """The listener for devices; what it does for a digest may be replaced."""

    url = "https://fleet.test"

    def __init__(self, **by_name: Callable[[], Iterator[bytes]]) -> None:
        self.asked: list[str] = []
        self._pieces = {file.ciphertext_sha256: by_name.get(file.name, lambda raw=raw: [raw]) for file, raw in SEALED}

    @contextmanager
    def get(self, url: str, *, start: int = 0) -> Iterator[Answer]:
        name = url.rpartition("/")[2]
        self.asked.append(name)
        yield Answer(200, None, None, iter(self._pieces[name]()))


class FullDisk(DiskFiles):
    """Takes nothing."""

    def append(self, path: Path, data: bytes, *, at: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Clock:
    """Goes on by as much as something takes."""

    now = 0.0


def fetch(
    state: Path,
    shelf: Shelf,
    *,
    clock: Clock | None = None,
    files: DiskFiles | None = None,
    pulse: Callable[[], None] = lambda: None,
) -> dict[str, str]:
    clock = clock or Clock()
    return fetch_spares(
        [file for file, _ in SEALED],
        source=shelf,
        records=Records(state, files=files or DiskFiles()),
        watch=Watch(pulse=pulse, pause=lambda _: None, fetched=lambda _: None),
        patience=Patience(3, 2.0),
        monotonic=lambda: clock.now,
    )


def offline() -> Iterator[bytes]:
    raise TryLater("the network is unreachable")


def names(state: Path) -> set[str]:
    return set(DiskFiles().names(state / "store"))


def test_all_that_come_are_there(tmp_path: Path) -> None:
    assert fetch(tmp_path, Shelf()) == {}
    assert names(tmp_path) == {ONE, TWO, THREE}


def test_one_that_is_wrong_is_left_out_alone(tmp_path: Path) -> None:
    left_out = fetch(tmp_path, Shelf(two=lambda: iter([bytes(5000)])))
    assert list(left_out) == [TWO] and "chunk 0" in left_out[TWO]
    assert names(tmp_path) == {ONE, THREE}


def test_line_that_is_down_leaves_out_what_is_not_here_yet(tmp_path: Path) -> None:
    assert fetch(tmp_path, Shelf(two=offline, three=offline)) == {TWO: "the network is unreachable"} | {
        THREE: "the network is unreachable"
    }
    assert names(tmp_path) == {ONE}
    fetch(tmp_path, Shelf())
    shelf = Shelf(one=offline)
    assert fetch(tmp_path, shelf) == {} and shelf.asked == []


def test_answer_that_takes_too_long_is_left(tmp_path: Path) -> None:
    clock = Clock()

    def trickle() -> Iterator[bytes]:
        for _ in itertools.count():
            clock.now += 60.0
            yield b"x"

    left_out = fetch(tmp_path, Shelf(two=trickle), clock=clock)
    assert list(left_out) == [TWO, THREE] and f"longer than {LIMIT_S:.0f} s" in left_out[TWO]
    assert clock.now <= LIMIT_S + 60.0


def test_full_disk_leaves_all_out(tmp_path: Path) -> None:
    assert list(fetch(tmp_path, Shelf(), files=FullDisk())) == [ONE, TWO, THREE]


def test_newer_document_ends_it(tmp_path: Path) -> None:
    def supersede() -> None:
        raise Superseded("a newer desired document came")

    with pytest.raises(Superseded):
        fetch(tmp_path, Shelf(), pulse=supersede)
