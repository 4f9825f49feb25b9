"""How does the archive of a tree of the agent become a folder that can be run?

The archive is signed, so it holds what its publisher packed; a mistake there must not reach outside of the tree all the
same. Only plain files at paths that its `tree.json` lists are taken, each with the size and digest listed, none is left
out, and nothing is unpacked beyond what the manifest promised. What an interpreter needs beside the files is made here.
"""

import hashlib
import io
import lzma
import os
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from shoal_wire.agent_release import CONTENTS, MAX_CONTENTS_BYTES, AgentTree, TreeContents, TreeFile, parse_contents
from shoal_wire.encoding import encode
from shoal_wire.errors import Malformed

from shoal_agent.updater.errors import Refused

READ_BYTES = 256 << 10
MEMORY_BYTES = 128 << 20
"""That xz may take to unpack: its strongest preset takes 65 MiB."""


def unpack(
    plaintext: Iterator[bytes], folder: Path, *, expected: AgentTree, version: str, pulse: Callable[[], None]
) -> TreeContents:
    """Fill an empty folder with a tree. Nothing of it is synced. `pulse` is called between files.

    Raises:
        Refused: the archive isn't what manifest and list say.
        WireError: the sealed file is damaged. What `pulse` raises.
    """
    try:
        with tarfile.open(fileobj=_Unpacked(plaintext, limit_bytes=expected.unpacked_bytes), mode="r|") as archive:
            contents = _read_contents(archive)
            _check(contents, expected=expected, version=version)
            _write_files(archive, folder, contents, pulse=pulse)
    except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
        raise Refused(f"the agent's archive can't be unpacked: {error or type(error).__name__}") from None
    except Malformed as error:
        raise Refused(f"the agent's archive: {error}") from None
    make_environment(folder, python=contents.python)
    return contents


def make_environment(folder: Path, *, python: str, interpreter: Path | None = None) -> None:
    """Let an interpreter find `site-packages` of a tree, and nothing else (PEP 405). It is the one that runs this."""
    base = interpreter or Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(base)
    library = folder / "lib" / f"python{python}"
    library.mkdir(parents=True)
    (library / "site-packages").symlink_to("../../site-packages")
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")


def find_difference(folder: Path, contents: TreeContents, *, pulse: Callable[[], None]) -> str | None:
    """What the disk gives back other than was unpacked, in words; None where all is as listed."""
    for path, file in contents.files.items():
        try:
            with (folder / path).open("rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # from the disk, not from memory
                found = TreeFile((folder / path).stat().st_size, hashlib.file_digest(opened, "sha256").hexdigest())
        except OSError as error:
            return f"file {path}: {error.strerror}"
        if found != file:
            return f"file {path}: the disk gives back other bytes than were written"
        pulse()
    return None


class _Unpacked(io.RawIOBase):
    """What a tar is read from: the plaintext without its compression, and no more of it than was promised."""

    def __init__(self, plaintext: Iterator[bytes], *, limit_bytes: int) -> None:
        super().__init__()
        self._plaintext = plaintext
        self._xz = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MEMORY_BYTES)
        self._left = limit_bytes

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill the front of a buffer; 0 at the end."""
        view, part = memoryview(buffer), b""
        while not part and not self._xz.eof:
            fed = next(self._plaintext, b"") if self._xz.needs_input else b""
            if self._xz.needs_input and not fed:
                raise EOFError("it is cut short")
            part = self._xz.decompress(fed, max_length=len(view))
        self._left -= len(part)
        if self._left < 0:
            raise tarfile.ReadError("it unpacks to more than its manifest says")
        view[: len(part)] = part
        return len(part)


def _read_contents(archive: tarfile.TarFile) -> TreeContents:
    first = archive.next()
    if first is None or first.name != CONTENTS or first.size > MAX_CONTENTS_BYTES:
        raise Refused(f"the agent's archive: expected {CONTENTS} to be its first file")
    return parse_contents(_open(archive, first).read())


def _check(contents: TreeContents, *, expected: AgentTree, version: str) -> None:
    found = (contents.version, contents.machine, contents.python)
    wanted = (version, expected.machine, expected.python)
    if found != wanted:
        raise Refused(f"the agent's archive is of {', '.join(found)}; the manifest says {', '.join(wanted)}")


def _write_files(archive: tarfile.TarFile, folder: Path, contents: TreeContents, *, pulse: Callable[[], None]) -> None:
    missing = dict(contents.files)
    while (member := archive.next()) is not None:
        file = missing.pop(member.name, None)
        if file is None or not member.isreg() or member.issparse() or member.size != file.size_bytes:
            raise Refused(f"the agent's archive: {member.name[:200]!r} isn't among its files, or not as it is listed")
        path = folder / member.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if _copy(_open(archive, member), path) != file.sha256:
            raise Refused(f"the agent's archive: {member.name[:200]!r} has another digest than is listed")
        pulse()
    if missing:
        raise Refused(f"the agent's archive lacks {len(missing)} of its files, as {min(missing)[:200]!r}")
    (folder / CONTENTS).write_bytes(encode(contents))


def _copy(source: IO[bytes], path: Path) -> str:
    """Write a file that isn't there yet; its SHA-256."""
    digest = hashlib.sha256()
    with path.open("xb") as target:
        while part := source.read(READ_BYTES):
            digest.update(part)
            target.write(part)
    return digest.hexdigest()


def _open(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    opened = archive.extractfile(member) if member.isreg() else None
    if opened is None:
        raise Refused(f"the agent's archive: {member.name[:200]!r} is no plain file")
    return opened
