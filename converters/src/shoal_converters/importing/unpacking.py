"""How is a tar archive from outside unpacked? Plain files and folders only, inside of one folder, within bounds."""

import gzip
import io
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from shoal_converters.errors import BadModel

MAX_MEMBERS = 100_000
MAX_READ_BYTES = 8 << 20
"""At once: headers are read whole, and one may claim any size."""
CHUNK_BYTES = 1 << 20
MAX_DEPTH = 32
BROKEN = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError, OverflowError)


class _Bounded(io.RawIOBase):
    """A file that refuses to be read in large pieces."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        if not 0 <= size <= MAX_READ_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


def unpack_tar(archive: Path, folder: Path, *, limit_bytes: int) -> int:
    """Unpack an archive, plain or compressed by gzip, into a folder; gives the bytes that were written.

    Raises:
        BadModel: broken or cut short; a name that leads out of the folder or occurs twice; a link or a device; more
            than `limit_bytes` or MAX_MEMBERS in all. What was unpacked before stays.
    """
    written = 0
    try:
        with archive.open("rb") as raw:
            is_compressed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            opened: BinaryIO = gzip.GzipFile(fileobj=raw) if is_compressed else raw  # type: ignore[assignment]
            with tarfile.open(fileobj=_Bounded(opened), mode="r:") as members:
                for number, member in enumerate(members):
                    if number >= MAX_MEMBERS:
                        raise BadModel(f"{archive.name}: more than {MAX_MEMBERS} files")
                    target = place_inside(folder, member.name, what=archive.name)
                    if member.isdir():
                        target.mkdir(parents=True, exist_ok=True)
                        continue
                    if not member.isreg():
                        raise BadModel(f"{archive.name}: {member.name[:200]!r} is no plain file (a link or a device)")
                    if written + member.size > limit_bytes:
                        raise BadModel(f"{archive.name}: unpacks to more than {limit_bytes} bytes")
                    written += _write(members, member, target, archive=archive.name)
    except OSError as error:
        raise BadModel(f"{archive.name}: can't be unpacked: {error.strerror or error}") from None
    except BROKEN as error:
        raise BadModel(f"{archive.name}: a broken or cut archive ({str(error)[:200]})") from None
    return written


def place_inside(folder: Path, name: str, *, what: str) -> Path:
    """The path of a name inside of a folder.

    Raises:
        BadModel: the name is absolute, leads out of the folder, or is none.
    """
    path = PurePosixPath(name)
    parts = [part for part in path.parts if part != "."]
    is_bad = path.is_absolute() or ".." in parts or "\0" in name or "\\" in name or len(parts) > MAX_DEPTH
    if is_bad or any(len(part.encode(errors="replace")) > 255 for part in parts):
        raise BadModel(f"{what}: the name {name[:200]!r} leads out of the folder, or is none")
    return folder.joinpath(*parts)


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, target: Path, *, archive: str) -> int:
    content = members.extractfile(member)
    if content is None:
        raise BadModel(f"{archive}: {member.name[:200]!r} has no content")
    target.parent.mkdir(parents=True, exist_ok=True)
    left = member.size
    try:
        with target.open("xb") as file:
            while left:
                chunk = content.read(min(CHUNK_BYTES, left))
                if not chunk:
                    raise BadModel(f"{archive}: cut short within {member.name[:200]!r}")
                file.write(chunk)
                left -= len(chunk)
    except FileExistsError:
        raise BadModel(f"{archive}: {member.name[:200]!r} is there twice") from None
    return member.size
