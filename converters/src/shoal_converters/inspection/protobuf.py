"""What fields does a message of Protocol Buffers hold, without its schema's code?

ONNX, SavedModel, Paddle and Core ML files are such messages. Read here they need no framework, and no more memory than
their structure: weights, which are most of a file, are stepped over. Encoding: protobuf.dev, "Encoding".
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from shoal_converters.errors import BadModel

MAX_FIELDS = 2_000_000
"""Of one message, not counting those of messages inside it."""
MAX_DEPTH = 64
"""Of graphs in graphs."""
MAX_TEXT = 4096
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_WIDTHS = {FIXED64: 8, FIXED32: 4}


class Message:
    """One message: its fields by number, in the order in which they came."""

    def __init__(self, data: memoryview, *, what: str) -> None:
        """Find the fields. `what` names it in errors.

        Raises:
            BadModel: a field ends behind the message, or is of no known kind; or there are too many.
        """
        self.what = what
        self.kinds: dict[int, set[int]] = {}
        """Wire types by field."""
        self._values: dict[int, list[int | memoryview]] = {}
        for count, (field, kind, value) in enumerate(_fields(data, what=what)):
            if count >= MAX_FIELDS:
                raise BadModel(f"{what}: more than {MAX_FIELDS} fields in one message")
            self.kinds.setdefault(field, set()).add(kind)
            self._values.setdefault(field, []).append(value)

    def has(self, field: int) -> bool:
        """Whether it occurs."""
        return field in self._values

    def number(self, field: int, *, default: int = 0) -> int:
        """A whole number with sign (int32, int64, enum)."""
        last = self._values.get(field, [default])[-1]
        return _signed(last) if isinstance(last, int) else default

    def numbers(self, field: int) -> list[int]:
        """Whole numbers with sign, packed or not.

        Raises:
            BadModel: the last one is cut off.
        """
        found: list[int] = []
        for value in self._values.get(field, []):
            if isinstance(value, int):
                found.append(_signed(value))
                continue
            if len(value) > MAX_FIELDS:
                raise BadModel(f"{self.what}: a list of {len(value)} bytes of numbers")
            at = 0
            while at < len(value):
                number, at = _varint(value, at, what=self.what)
                found.append(_signed(number))
        return found

    def raw(self, field: int) -> list[memoryview]:
        """Bytes of each occurrence."""
        return [value for value in self._values.get(field, []) if isinstance(value, memoryview)]

    def texts(self, field: int) -> list[str]:
        """Texts, cut to what can be shown."""
        return [bytes(value[:MAX_TEXT]).decode(errors="replace") for value in self.raw(field)]

    def text(self, field: int) -> str:
        """A text, empty where it is left out."""
        return (self.texts(field) or [""])[-1]

    def messages(self, field: int, *, what: str = "") -> Iterator[Message]:
        """Messages inside it."""
        for value in self.raw(field):
            yield Message(value, what=f"{self.what}: {what}" if what else self.what)

    def message(self, field: int) -> Message:
        """The message inside it, an empty one where it is left out."""
        return next(self.messages(field), Message(memoryview(b""), what=self.what))

    def entries(self, field: int) -> Iterator[tuple[str, Message]]:
        """Those of a map from texts to messages."""
        for entry in self.messages(field):
            yield entry.text(1), entry.message(2)


def map_file(path: Path) -> memoryview:
    """The bytes of a file, which are read from the disk where they are looked at.

    Raises:
        BadModel: there is no such file, or it is empty.
    """
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:
        raise BadModel(f"{path}: the file is empty") from None
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None


def _fields(data: memoryview, *, what: str) -> Iterator[tuple[int, int, int | memoryview]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at, what=what)
        field, kind = key >> 3, key & 7
        if field == 0:
            raise BadModel(f"{what}: not in the encoding of Protocol Buffers (a field of number 0)")
        if kind == VARINT:
            number, at = _varint(data, at, what=what)
            yield field, kind, number
            continue
        if kind == BYTES:
            length, at = _varint(data, at, what=what)
        elif kind in _WIDTHS:
            length = _WIDTHS[kind]
        else:
            raise BadModel(f"{what}: not in the encoding of Protocol Buffers (a field of kind {kind})")
        if at + length > len(data):
            claimed = f"field {field} claims {length} bytes, {len(data) - at} are left"
            raise BadModel(f"{what}: broken or cut short: {claimed}")
        yield field, kind, data[at : at + length]
        at += length


def _varint(data: memoryview, at: int, *, what: str) -> tuple[int, int]:
    """A number, and where what follows it begins."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            raise BadModel(f"{what}: cut short in the middle of a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise BadModel(f"{what}: not in the encoding of Protocol Buffers (a number of more than 64 bits)")


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
