"""Can the receiver of shared memory rely on it?"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_worker.channel import BadMessage
from shoal_worker.memory import create_fixed, linked, map_fixed, map_present, read_sealed, seal_bytes, seal_chunks


@given(chunks=st.lists(st.binary(max_size=5000), max_size=5))
def test_sealed_chunks_read_back_as_their_whole(chunks: list[bytes]) -> None:
    fd = seal_chunks(chunks)
    assert read_sealed(fd) == b"".join(chunks)
    os.close(fd)


def test_sealed_bytes_cannot_change() -> None:
    fd = seal_bytes(b"model")
    with pytest.raises(OSError):
        os.pwrite(fd, b"x", 0)
    with pytest.raises(OSError):
        os.ftruncate(fd, 1)
    with pytest.raises(OSError):
        mmap.mmap(fd, 5)
    with pytest.raises(OSError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    assert read_sealed(fd) == b"model"
    os.close(fd)


def test_waits_until_nobody_holds_a_page_before_it_seals() -> None:
    """As the kernel may while it moves pages about: here it is a mapping that somebody has yet to give up."""
    held: list[mmap.mmap] = []

    def chunks() -> Iterator[bytes]:
        yield b"model"
        (fd,) = [int(name) for name in os.listdir("/proc/self/fd") if "shoal-bytes" in _target(name)]
        held.append(mmap.mmap(fd, 5))
        threading.Timer(0.5, held[0].close).start()

    fd = seal_chunks(chunks())
    assert held[0].closed
    assert read_sealed(fd) == b"model"
    os.close(fd)


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # that of the listing itself
        return ""


def test_what_the_chunks_raise_is_passed_on_and_nothing_leaks() -> None:
    def broken() -> Iterator[bytes]:
        yield b"first"
        raise ValueError("forged chunk")

    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ValueError, match="forged chunk"):
        seal_chunks(broken())
    assert len(os.listdir("/proc/self/fd")) == before


def test_memory_of_fixed_size_is_shared_and_stays_its_size() -> None:
    ours, fd = create_fixed(8192)
    theirs = map_fixed(fd, max_bytes=8192)
    ours[5] = 77
    assert theirs[5] == 77
    with pytest.raises(OSError):
        os.ftruncate(fd, 10)
    with pytest.raises(BadMessage, match="1 to 4096 bytes, found 8192"):
        map_fixed(fd, max_bytes=4096)
    with pytest.raises(BadMessage, match="sealed against writing"):
        read_sealed(fd)
    ours.close()
    theirs.close()
    os.close(fd)


def test_memory_that_could_still_shrink_is_refused() -> None:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 4096)
    with pytest.raises(BadMessage, match="sealed against shrinking"):
        map_fixed(fd, max_bytes=4096)
    os.close(fd)


def test_other_descriptors_are_refused() -> None:
    reading, writing = os.pipe()
    with pytest.raises(BadMessage, match="another kind of descriptor"):
        map_fixed(reading, max_bytes=4096)
    os.close(reading)
    os.close(writing)


def test_link_leads_to_memory_and_is_gone_after_the_block_whatever_happens() -> None:
    fd = seal_bytes(b"model")
    with pytest.raises(InterruptedError), linked(fd, ending=".tflite") as path:
        assert path.endswith(".tflite")
        assert Path(path).read_bytes() == b"model"
        raise InterruptedError
    assert not Path(path).parent.exists()
    os.close(fd)


def test_map_of_sealed_bytes_shows_them_and_outlives_the_descriptor() -> None:
    model = bytes(range(256)) * 64
    fd = seal_bytes(model)
    with map_present(fd) as mapped:
        os.close(fd)
        assert mapped[:] == model
