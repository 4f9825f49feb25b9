"""Is what comes from the fleet, or stands in a file, one unbroken audit log, and the one that was seen before?

What was seen is kept beside the login: the last entry, and the key that signs checkpoints, which is trusted from the
first time on.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from shoal_wire import audit, envelope
from shoal_wire.audit import MAX_ENTRY_BYTES, START, AuditHead
from shoal_wire.encoding import decode_struct
from shoal_wire.errors import Damaged, Malformed

from shoal_fleet.command.account import Login, login_file
from shoal_fleet.command.errors import UsageError
from shoal_fleet.command.private_files import make_private_folder, write_private


class Known(msgspec.Struct, frozen=True):
    """What a user knows of a fleet's log."""

    head: AuditHead = START
    key: str | None = None
    """Of the checkpoints, as `envelope.public_text` writes it; None where none is trusted yet."""


class _CheckpointLine(msgspec.Struct, frozen=True):
    checkpoint: msgspec.Raw


class Reading:
    """Takes a log line by line, as `GET /api/v1/audit/export` gives it, and refuses the first that doesn't fit."""

    def __init__(self, known: Known, *, what: str) -> None:
        self._known = known
        self._key = None if known.key is None else envelope.parse_public_key(known.key, what="key of the checkpoints")
        self._what = what
        self.head = START
        self.signed_entries = 0
        """How many a checkpoint vouches for, where a key is trusted."""

    def take(self, line: bytes) -> None:
        """The next line.

        Raises:
            Malformed, Unsupported: neither an entry nor a checkpoint.
            Damaged: something was changed, left out or put in; the message names the entry.
            Untrusted: a checkpoint that the key didn't sign.
        """
        if line.startswith(b'{"checkpoint":'):
            self._take_checkpoint(line)
            return
        entry = audit.parse_entry(line, what=f"{self._what}: line after entry {self.head.sequence}")
        try:
            self.head = audit.follow(self.head, entry)
        except Damaged as error:
            raise Damaged(f"{self._what}: {error}") from None
        if entry.sequence == self._known.head.sequence and entry.digest != self._known.head.digest:
            raise Damaged(
                f"{self._what}: entry {entry.sequence} has the digest {entry.digest[:12]}, the last time it had "
                f"{self._known.head.digest[:12]}: the log was written anew; compare it with what you exported before"
            )

    def finish(self, *, is_whole: bool) -> None:
        """After the last line. `is_whole`: the log may not end before what was seen the last time.

        Raises:
            Damaged: it does, or the last lines are missing.
        """
        seen = self._known.head.sequence
        if is_whole and self.head.sequence < seen:
            raise Damaged(
                f"{self._what}: ends at entry {self.head.sequence}, the last time it had {seen}: its end was cut off; "
                "compare it with what you exported before"
            )
        if self._key is not None and self.signed_entries != self.head.sequence:
            raise Damaged(
                f"{self._what}: ends at entry {self.head.sequence} without a checkpoint: lines are missing at the end"
            )

    def _take_checkpoint(self, line: bytes) -> None:
        what = f"{self._what}: checkpoint after entry {self.head.sequence}"
        raw = bytes(decode_struct(line, _CheckpointLine, what=what, limit_bytes=MAX_ENTRY_BYTES).checkpoint)
        if self._key is None:
            return
        checkpoint = audit.open_checkpoint(raw, self._key, what=what)
        if checkpoint.sequence < self.head.sequence:
            raise Damaged(
                f"{what}: is signed for entry {checkpoint.sequence} alone: the end of the log was cut off, or these "
                "entries are of another one"
            )
        if (checkpoint.sequence, checkpoint.digest) != (self.head.sequence, self.head.digest):
            raise Damaged(
                f"{what}: is signed for entry {checkpoint.sequence} with the digest {checkpoint.digest[:12]}, found "
                f"{self.head.digest[:12]}: entries before it were taken out or replaced"
            )
        self.signed_entries = checkpoint.sequence


def read_file(path: Path) -> Iterator[bytes]:
    """Lines of an export, each with its end.

    Raises:
        OSError: can't be read.
        Malformed: a line is longer than any entry.
    """
    with path.open("rb") as file:
        while line := file.readline(MAX_ENTRY_BYTES + 1):
            if len(line) > MAX_ENTRY_BYTES:
                raise Malformed(f"{path}: expected lines of at most {MAX_ENTRY_BYTES} bytes, found a longer one")
            yield line


def load_known(login: Login) -> Known:
    """What this user knows of the log of that fleet.

    Raises:
        UsageError: the file is damaged.
    """
    return _load_all().get(_name(login), Known())


def save_known(login: Login, known: Known) -> None:
    """Keep it, on disk when this returns."""
    path = _known_file()
    make_private_folder(path.parent)
    write_private(path, msgspec.json.encode({**_load_all(), _name(login): known}))


def _load_all() -> Mapping[str, Known]:
    path = _known_file()
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Known])
    except FileNotFoundError:
        return {}
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}; it says which audit log was seen last: restore it, or remove it") from None


def _known_file() -> Path:
    return login_file().with_suffix(".audit.json")


def _name(login: Login) -> str:
    """A fleet is known by its authority: addresses may change."""
    return hashlib.sha256(login.authority.encode()).hexdigest()
