"""How does a sealed file come to be under another content key, without its plaintext ever being on a disk?

The sealed file is fetched into a temporary file. From there it is opened and sealed chunk by chunk, twice: once for the
digests that the manifest needs, once for the upload.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import BinaryIO

import msgspec
from shoal_wire import sealed_file
from shoal_wire.errors import Damaged, Malformed
from shoal_wire.manifest import SealedFile

from shoal_fleet.command.content_keys import ContentKeys
from shoal_fleet.command.errors import CommandError, UsageError
from shoal_fleet.command.sealing import check_parts


class Resealed:
    """A file of a release under the present content key of its plaintext, which a fetched one was opened for."""

    def __init__(self, file: SealedFile, fetched: BinaryIO, keys: ContentKeys, *, renews: bool) -> None:
        """Find the key that opens the fetched file; where that is the present one and `renews`, make another.

        Raises:
            UsageError: no key here opens it: it was sealed by another publisher.
        """
        self._before, self._fetched = file, fetched
        candidates = keys.all(file.plaintext_sha256)
        found = next((key for key in candidates if self._opens(key)), None)
        if found is None:
            raise UsageError(f"file {file.name}: this publisher's folder holds no key that opens it")
        self._old = found
        is_present = found == candidates[0]
        self._new = keys.renew(file.plaintext_sha256) if is_present and renews else candidates[0]
        self.file = file if self._new == found else self._describe()

    @property
    def is_changed(self) -> bool:
        """Whether it is another sealed file now."""
        return self.file is not self._before

    def parts(self) -> Iterator[bytes]:
        """The sealed file, for upload.

        Raises:
            CommandError: what was fetched has changed in between.
        """
        try:
            yield from check_parts(self._seal(), self.file)
        except (Malformed, Damaged) as error:
            raise CommandError(f"{error}; run the command again") from None

    def _opens(self, key: bytes) -> bool:
        self._fetched.seek(0)
        try:
            next(sealed_file.unseal(sealed_file.read_parts(self._fetched.read), key), None)
        except (Malformed, Damaged):
            return False
        return True

    def _describe(self) -> SealedFile:
        digest = hashlib.sha256()
        try:
            digests = sealed_file.digest(self._seal(digest.update))
        except (Malformed, Damaged) as error:
            raise CommandError(f"file {self._before.name}: {error}") from None
        if digest.hexdigest() != self._before.plaintext_sha256:
            raise CommandError(f"file {self._before.name}: opens to other bytes than its manifest says")
        return msgspec.structs.replace(
            self._before,
            ciphertext_sha256=digests.ciphertext_sha256,
            ciphertext_bytes=digests.ciphertext_bytes,
            chunk_sha256s=digests.chunk_sha256s,
        )

    def _seal(self, see: Callable[[bytes], None] = lambda chunk: None) -> Iterator[bytes]:
        self._fetched.seek(0)
        plain = _Reader(sealed_file.unseal(sealed_file.read_parts(self._fetched.read), self._old), see=see)
        return sealed_file.seal_stream(
            plain.read,
            self._new,
            plaintext_bytes=self._before.plaintext_bytes,
            suite=self._before.suite,
            chunk_bytes=self._before.chunk_bytes,
        )


class _Reader:
    """Reads chunks as a file is read."""

    def __init__(self, chunks: Iterator[bytes], *, see: Callable[[bytes], None]) -> None:
        self._chunks, self._see = chunks, see
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        if not self._rest:
            self._rest = next(self._chunks, b"")
            self._see(self._rest)
        given, self._rest = self._rest[:size], self._rest[size:]
        return given
