"""How are sealed files kept by the digest of their bytes?

A file is there whole or not at all: it is written under another name, compared with its digest and then moved.
"""

import asyncio
import hashlib
import os
import re
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

from shoal_fleet.errors import NotFound, Refused, TooLarge
from shoal_fleet.pki.files import make_private_folder

_SHA256 = re.compile(r"[0-9a-f]{64}")
_INCOMING = "incoming"


class SealedStore:
    """A folder of sealed files. The fleet can't read them: their keys are sealed to devices, and to it as grants."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._incoming = folder / _INCOMING

    def open(self) -> None:
        """Make the folder, and remove what uploads left that were cut off. Call before the first upload."""
        make_private_folder(self._incoming)
        for rest in self._incoming.iterdir():
            rest.unlink()

    def find(self, sha256: str) -> Path:
        """The file of that digest.

        Raises:
            NotFound: it isn't here.
        """
        path = self._path(sha256)
        if path is None or not path.is_file():
            raise NotFound(f"sealed file {sha256[:64]!r}: not here")
        return path

    def size_bytes(self, sha256: str) -> int | None:
        """Size of the file of that digest, None where it isn't here."""
        path = self._path(sha256)
        try:
            return None if path is None else path.stat().st_size
        except FileNotFoundError:
            return None

    async def receive(self, sha256: str, parts: AsyncIterator[bytes], *, limit_bytes: int) -> int:
        """Keep an upload; returns its size. It is on disk under its digest when this returns.

        Raises:
            Refused: the bytes have another digest, or `sha256` is none.
            TooLarge: more than `limit_bytes`.
        """
        path = self._path(sha256)
        if path is None:
            raise Refused(f"sealed file {sha256[:80]!r}: expected the SHA-256 of its bytes, 64 hex digits")
        handle, temporary = tempfile.mkstemp(dir=self._incoming)
        try:
            digest, size_bytes = hashlib.sha256(), 0
            with os.fdopen(handle, "wb") as file:
                async for part in parts:
                    size_bytes += len(part)
                    if size_bytes > limit_bytes:
                        raise TooLarge(f"sealed file {sha256}: expected at most {limit_bytes} bytes, found more")
                    digest.update(part)
                    await asyncio.to_thread(file.write, part)
                await asyncio.to_thread(_sync, file)
            if digest.hexdigest() != sha256:
                raise Refused(f"sealed file {sha256}: found {size_bytes} bytes with sha256 {digest.hexdigest()}")
            await asyncio.to_thread(_move, Path(temporary), path)
        finally:
            await asyncio.to_thread(Path(temporary).unlink, missing_ok=True)
        return size_bytes

    def _path(self, sha256: str) -> Path | None:
        return self._folder / sha256[:2] / sha256 if _SHA256.fullmatch(sha256) else None


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, exist_ok=True)
    source.replace(target)
    for folder in (target.parent, target.parent.parent):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
