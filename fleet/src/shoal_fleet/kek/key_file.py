"""How is a key-encryption key kept in a file?

32 random bytes, as one line of base64, mode 0600. The folder that is made for it holds a cache tag
(https://bford.info/cachedir/), by which back-up programs leave it out: `tar --exclude-caches-all`, `restic backup
--exclude-caches`, `borg create --exclude-caches`.
"""

import base64
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from shoal_wire.encoding import decode_base64
from shoal_wire.errors import Malformed

from shoal_fleet.errors import BadConfiguration
from shoal_fleet.pki.files import PUBLIC, make_private_folder, write_whole

TAG_FILE = "CACHEDIR.TAG"
_SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55\n"
_WHY = "# Holds the key of this fleet's secrets: a back-up that has both gives the models away.\n"
_KEY_BYTES = 32
_MOST_BYTES = 1024
"""Of a file that are looked at."""
_NONCE_BYTES = 12
_CONTEXT = b"shoal/kek/file/v1"


class KeyFile:
    """Wraps by AES-256-GCM."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._path = path
        self._cipher = AESGCM(key)

    def wrap(self, secret: bytes) -> bytes:
        """See `KeyEncryptionKey`."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, secret, _CONTEXT)

    def unwrap(self, wrapped: bytes) -> bytes:
        """See `KeyEncryptionKey`."""
        try:
            return self._cipher.decrypt(wrapped[:_NONCE_BYTES], wrapped[_NONCE_BYTES:], _CONTEXT)
        except (InvalidTag, ValueError):
            raise BadConfiguration(
                f"kek file:{self._path}: is not the key that the fleet's secrets are under"
            ) from None


def resolve_key_file(uri: str, *, state: Path) -> Path:
    """The file of a `file:` URI. A relative path begins at the state folder.

    Raises:
        BadConfiguration: names none.
    """
    path = uri.removeprefix("file:")
    if not path or "\0" in path:
        raise BadConfiguration(f"kek {uri[:200]!r}: expected file:PATH")
    return (state / path).resolve()


def open_key_file(uri: str, *, state: Path, may_make: bool) -> KeyFile:
    """The key in that file; made first where there is none and it may be, and on disk on return.

    Raises:
        BadConfiguration: the file isn't there, holds no key, or can't be read or made.
    """
    path = resolve_key_file(uri, state=state)
    try:
        if may_make and not path.exists():
            _make(path)
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError as error:
        raise BadConfiguration(
            f"kek {uri[:200]}: {path}: {error.strerror}; without this key no secret of the fleet opens: restore it"
        ) from None
    try:
        key = decode_base64(text.decode("ascii", "replace").strip(), what=str(path))
    except Malformed as error:
        raise BadConfiguration(f"kek {uri[:200]}: {error}; expected {_KEY_BYTES} bytes in base64") from None
    if len(key) != _KEY_BYTES:
        raise BadConfiguration(f"kek {uri[:200]}: {path}: expected {_KEY_BYTES} bytes in base64, found {len(key)}")
    return KeyFile(path, key)


def _make(path: Path) -> None:
    if not path.parent.exists():
        make_private_folder(path.parent)
        write_whole(path.parent / TAG_FILE, (_SIGNATURE + _WHY).encode(), mode=PUBLIC)
    write_whole(path, base64.b64encode(secrets.token_bytes(_KEY_BYTES)) + b"\n")
