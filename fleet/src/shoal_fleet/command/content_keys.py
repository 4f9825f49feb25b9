"""With which key is a plaintext sealed, and with which was it sealed before?

One file for each distinct plaintext, in the publisher's folder: a later release refers to the same sealed file. A key
that became known to somebody is followed by a new one; the earlier ones are kept, as they open what was sealed by them.
"""

import base64
import secrets
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Bytes64, Sha256, decode_base64, decode_struct
from shoal_wire.errors import Malformed
from shoal_wire.sealed_file import KEY_BYTES

from shoal_fleet.command.errors import CommandError
from shoal_fleet.command.private_files import make_private_folder, write_private


class ContentKey(msgspec.Struct, frozen=True):
    """The keys of one plaintext."""

    plaintext_sha256: Sha256
    key: Bytes64
    """What it is sealed with from now on."""
    earlier: Annotated[tuple[Bytes64, ...], Meta(max_length=1000)] = ()
    """What it was sealed with before, the newest first."""


class ContentKeys:
    """A folder of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, plaintext_sha256: str) -> bytes:
        """The key of that plaintext: the one it was sealed with before, or a new one that is on disk on return.

        Raises:
            CommandError: the file of the key is damaged.
        """
        if not self._path(plaintext_sha256).exists():
            self._write(ContentKey(plaintext_sha256, _new()))
        return self.all(plaintext_sha256)[0]

    def all(self, plaintext_sha256: str) -> tuple[bytes, ...]:
        """Every key that the plaintext has, or had, the newest first; none of one that was never sealed here.

        Raises:
            CommandError: the file of the keys is damaged.
        """
        path = self._path(plaintext_sha256)
        if not path.exists():
            return ()
        kept = self._read(plaintext_sha256)
        return tuple(decode_base64(text, what=str(path)) for text in (kept.key, *kept.earlier))

    def renew(self, plaintext_sha256: str) -> bytes:
        """A new key for a plaintext, on disk on return; the present one becomes an earlier one.

        Raises:
            CommandError: the file of the keys is damaged.
        """
        kept = self._read(plaintext_sha256)
        self._write(ContentKey(plaintext_sha256, _new(), (kept.key, *kept.earlier)))
        return self.all(plaintext_sha256)[0]

    def _read(self, plaintext_sha256: str) -> ContentKey:
        path = self._path(plaintext_sha256)
        try:
            kept = decode_struct(path.read_bytes(), ContentKey, what=str(path))
            keys = [decode_base64(text, what=str(path)) for text in (kept.key, *kept.earlier)]
        except Malformed as error:
            raise _damaged(str(error)) from None
        if kept.plaintext_sha256 != plaintext_sha256 or any(len(key) != KEY_BYTES for key in keys):
            raise _damaged(f"{path}: expected the key of that plaintext, {KEY_BYTES} bytes")
        return kept

    def _write(self, key: ContentKey) -> None:
        make_private_folder(self._folder)
        write_private(self._path(key.plaintext_sha256), msgspec.json.encode(key))

    def _path(self, plaintext_sha256: str) -> Path:
        return self._folder / f"{plaintext_sha256}.json"


def _new() -> str:
    return base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()


def _damaged(why: str) -> CommandError:
    return CommandError(f"{why}; restore the publisher's folder from a copy")
