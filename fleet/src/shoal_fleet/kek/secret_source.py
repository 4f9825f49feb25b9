"""Where does a passphrase or PIN come from, so that no setting and no argument holds it?

fd:N              read from that file descriptor until its end, then closed
file:PATH         a file, without the line's end; best on a file system that isn't a disk
credential:NAME   $CREDENTIALS_DIRECTORY/NAME, as systemd's LoadCredential= and SetCredentialEncrypted= give it
prompt            asked for at the terminal; twice where it is new
"""

import getpass
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from shoal_fleet.errors import BadConfiguration

MAX_SECRET_BYTES = 4096


def read_secret(source: str, *, what: str, is_new: bool = False) -> bytes:
    """The secret, without the line break after it; at most `MAX_SECRET_BYTES` are read.

    Args:
        is_new: something will be wrapped by it for the first time. Then a mistake must be noticed now: at the terminal
            it is asked for twice, and one that is longer than what is read is refused.

    Raises:
        BadConfiguration: no such source, nothing in it, or too much. The message never repeats what was read, nor what
            stands in the place of a source: that may be the secret itself, given by mistake.
    """
    kind, _, rest = source.partition(":")
    reader = _SOURCES.get(kind)
    if reader is None:
        raise BadConfiguration(f"{what}: expected it from one of {', '.join(_SOURCES)}, found something else")
    try:
        read = reader(rest)
        if is_new and kind == "prompt" and _ask_again() != read:
            raise ValueError("it was not the same both times; nothing was changed")
        if is_new and len(read) > MAX_SECRET_BYTES:
            raise ValueError(f"expected at most {MAX_SECRET_BYTES} bytes")
        secret = read[:MAX_SECRET_BYTES].rstrip(b"\r\n")
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error or type(error).__name__
        raise BadConfiguration(f"{what}: can't be read from {source[:200]!r}: {reason}") from None
    if not secret:
        raise BadConfiguration(f"{what}: expected a secret from {source[:200]!r}, found nothing")
    return secret


def find_file(source: str) -> Path | None:
    """The file that a secret comes from; None where it comes from somewhere else."""
    kind, _, rest = source.partition(":")
    return Path(rest).resolve() if kind == "file" else None


def _read_descriptor(rest: str) -> bytes:
    with os.fdopen(int(rest), "rb") as file:
        return file.read(MAX_SECRET_BYTES + 1)


def _read_file(rest: str) -> bytes:
    with Path(rest).open("rb") as file:
        return file.read(MAX_SECRET_BYTES + 1)


def _read_credential(rest: str) -> bytes:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if folder is None:
        raise ValueError("this program has no CREDENTIALS_DIRECTORY: name the credential in its systemd unit")
    if not rest or "/" in rest or rest.startswith("."):
        raise ValueError("expected the name of a credential")
    return _read_file(str(Path(folder) / rest))


def _ask(_rest: str) -> bytes:
    return getpass.getpass("secret of the key-encryption key: ").encode()


def _ask_again() -> bytes:
    return getpass.getpass("the same again, as it is new: ").encode()


_SOURCES: Mapping[str, Callable[[str], bytes]] = {
    "fd": _read_descriptor,
    "file": _read_file,
    "credential": _read_credential,
    "prompt": _ask,
}
