"""How do bytes pass between processes in memory that the receiver can rely on?

A memfd (memfd_create(2)) has no name in any file system and goes when its last holder ends, however it ends.
Seals (fcntl(2)) promise the receiver what the sender can no longer do: change the bytes of a model, or cut
memory that is mapped (which would kill the reader with SIGBUS). The receiver checks the seals before it maps.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .channel import BadMessage

FIXED_SIZE = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
READ_ONLY = FIXED_SIZE | fcntl.F_SEAL_WRITE

MEMORY_FOLDER, DISK_FOLDER = Path("/dev/shm"), Path("/tmp")  # noqa: S108 (for links, which hold nothing)

SEAL_S = 30.0
_SEAL_PAUSE_S = 0.05
_SEAL_NAMES = {fcntl.F_SEAL_SHRINK: "shrinking", fcntl.F_SEAL_GROW: "growing", fcntl.F_SEAL_WRITE: "writing"}


def seal_bytes(data: bytes | bytearray | memoryview) -> int:
    """Copy `data` into a memfd that nobody can change any more. The caller owns and closes the descriptor."""
    return seal_chunks([data])


def seal_chunks(chunks: Iterable[bytes | bytearray | memoryview]) -> int:
    """Like `seal_bytes`, without holding all the bytes twice. What the iterable raises is passed on; nothing leaks."""
    fd = _create("shoal-bytes")
    try:
        for chunk in chunks:
            _write_all(fd, memoryview(chunk).cast("B"))
        _seal(fd, READ_ONLY | fcntl.F_SEAL_SEAL)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_sealed(fd: int) -> bytes:
    """Copy the bytes out of a write-sealed memfd. The descriptor stays the caller's.

    Raises:
        BadMessage: not such a memfd.
    """
    size_bytes = verify_seals(fd, needed=READ_ONLY)
    chunks = []
    end = 0
    while end < size_bytes:
        # At a place of our own: the other holders of the memfd share one file position.
        chunks.append(os.pread(fd, size_bytes - end, end))
        end += len(chunks[-1])
    return b"".join(chunks)


def create_fixed(size_bytes: int) -> tuple[mmap.mmap, int]:
    """Make a writable memfd of a size that can't change; return its mapping and its descriptor, both the caller's."""
    fd = _create("shoal-tensors")
    try:
        os.ftruncate(fd, size_bytes)
        _seal(fd, FIXED_SIZE | fcntl.F_SEAL_SEAL)
        return mmap.mmap(fd, size_bytes), fd
    except BaseException:
        os.close(fd)
        raise


def map_fixed(fd: int, *, max_bytes: int) -> mmap.mmap:
    """Map a memfd of fixed size for reading and writing. The mapping outlives the descriptor, which stays the caller's.

    Raises:
        BadMessage: not such a memfd, an empty one, or one of more than `max_bytes`.
    """
    size_bytes = verify_seals(fd, needed=FIXED_SIZE)
    if not 0 < size_bytes <= max_bytes:
        raise BadMessage(f"shared memory must have 1 to {max_bytes} bytes, found {size_bytes}")
    return mmap.mmap(fd, size_bytes)


def map_present(fd: int) -> mmap.mmap:
    """Map a memfd for reading, and have each of its pages be there: a process that locks its memory locks them so.

    Private, as older kernels share no memory that is sealed against writing; the pages are the memfd's all the same.
    """
    mapped = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
    bytes(memoryview(mapped)[:: mmap.PAGESIZE])
    return mapped


@contextlib.contextmanager
def linked(fd: int, *, ending: str) -> Iterator[str]:
    """A path of that ending which leads to the file that is descriptor `fd` in the process that opens it.

    For libraries that read a file by its path only, and look at its name. Gone when the block is left.
    """
    parent = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else DISK_FOLDER
    folder = parent / f"shoal-{os.urandom(8).hex()}"
    folder.mkdir(mode=0o700)
    link = folder / f"model{ending}"
    try:
        link.symlink_to(f"/proc/self/fd/{fd}")
        yield str(link)
    finally:
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        folder.rmdir()


def verify_seals(fd: int, *, needed: int) -> int:
    """Return the size in bytes of memory that carries all the seals in `needed`.

    Raises:
        BadMessage: a seal is missing, or it is no memfd.
    """
    try:
        found = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
    except OSError:
        raise BadMessage("expected a sealed memfd, found another kind of descriptor") from None
    missing = [name for seal, name in _SEAL_NAMES.items() if needed & seal and not found & seal]
    if missing:
        raise BadMessage(f"expected memory sealed against {', '.join(missing)}, found none of these seals")
    return os.fstat(fd).st_size


def _create(name: str) -> int:
    return os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)


def _seal(fd: int, seals: int) -> None:
    """Seal a memfd that nobody else has.

    The kernel refuses while any of its pages is held (EBUSY, mm/memfd.c), be it by its own compaction or by what
    watches memory; it waits for a sixth of a second itself, which a busy machine exceeds.
    """
    until = time.monotonic() + SEAL_S
    while True:
        try:
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                raise
        time.sleep(_SEAL_PAUSE_S)


def _write_all(fd: int, data: memoryview) -> None:
    while data:
        data = data[os.write(fd, data) :]
