"""What does a TFLite file say of its operators, without an engine?

Reads just enough of the FlatBuffers encoding (flatbuffers.dev, "Internals") and of schema.fbs of TensorFlow Lite: a
table starts with the distance back to its vtable, which holds the place of each field, or 0 where it is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

IDENTIFIER = b"TFL3"
FULLY_CONNECTED = 9  # BuiltinOperator
FLOAT32, INT8 = 0, 9  # TensorType
# From this version of the operator on, the file says so itself and old engines refuse it.
SAYS_SO_FROM_VERSION = 12


class BrokenFile(Exception):
    """The bytes are no whole TFLite file."""


@dataclass(frozen=True)
class _Table:
    """A table at byte `at`. Fields are named by their place in the schema."""

    data: bytes
    at: int

    def number(self, field: int, *, code: str, default: int = 0) -> int:
        place = self._place(field)
        return _read(self.data, place, code=code) if place else default

    def table(self, field: int) -> _Table | None:
        place = self._place(field)
        return _Table(self.data, place + _read(self.data, place, code="<I")) if place else None

    def tables(self, field: int) -> Iterator[_Table]:
        for place in self._items(field):
            yield _Table(self.data, place + _read(self.data, place, code="<I"))

    def numbers(self, field: int) -> list[int]:
        return [_read(self.data, place, code="<i") for place in self._items(field)]

    def length(self, field: int) -> int:
        return len(self._items(field))

    def text(self, field: int) -> str:
        place = self._place(field)
        if not place:
            return ""
        start = place + _read(self.data, place, code="<I")
        return self.data[start + 4 : start + 4 + _read(self.data, start, code="<I")].decode(errors="replace")

    def _place(self, field: int) -> int:
        """Where the field lies, 0 where it is left out."""
        vtable = self.at - _read(self.data, self.at, code="<i")
        if 4 + 2 * field >= _read(self.data, vtable, code="<H"):
            return 0
        distance = _read(self.data, vtable + 4 + 2 * field, code="<H")
        return self.at + distance if distance else 0

    def _items(self, field: int) -> range:
        """Where each item of a vector of 4-byte items lies."""
        place = self._place(field)
        if not place:
            return range(0)
        start = place + _read(self.data, place, code="<I")
        length = _read(self.data, start, code="<I")
        if start + 4 + 4 * length > len(self.data):
            raise BrokenFile(f"a vector of {length} items ends behind the file's {len(self.data)} bytes")
        return range(start + 4, start + 4 + 4 * length, 4)


def find_per_channel_hybrid(model: bytes) -> str | None:
    """The first fully connected operator with float inputs and INT8 weights that have a scale for each channel.

    Returns None where there is none.

    Raises:
        BrokenFile: what has to be read for that isn't all there.
    """
    if model[4:8] != IDENTIFIER:
        raise BrokenFile(f"not a TFLite file: expected {IDENTIFIER!r} at byte 4, found {model[4:8]!r}")
    root = _Table(model, _read(model, 0, code="<I"))
    codes = list(root.tables(1))
    for graph in root.tables(2):
        tensors = list(graph.tables(0))
        for operator in graph.tables(3):
            code = _item(codes, operator.number(0, code="<I"))
            inputs = operator.numbers(1)
            if not _is_old_fully_connected(code) or len(inputs) < 2:
                continue
            data, weights = (_item(tensors, index) for index in inputs[:2])
            scales = weights.table(4)
            types = (data.number(1, code="<b"), weights.number(1, code="<b"))
            if types == (FLOAT32, INT8) and scales is not None and scales.length(2) > 1:
                return f"FULLY_CONNECTED with weights {weights.text(3)!r}"
    return None


def _is_old_fully_connected(code: _Table) -> bool:
    # The number moved to a wider field; writers fill both.
    number = max(code.number(0, code="<b"), code.number(3, code="<i"))
    return number == FULLY_CONNECTED and code.number(2, code="<i", default=1) < SAYS_SO_FROM_VERSION


def _item(tables: list[_Table], index: int) -> _Table:
    if not 0 <= index < len(tables):
        raise BrokenFile(f"expected an index up to {len(tables) - 1}, found {index}")
    return tables[index]


def _read(data: bytes, at: int, *, code: str) -> int:
    if not 0 <= at <= len(data) - struct.calcsize(code):
        raise BrokenFile(f"a reference leads to byte {at} of a file of {len(data)} bytes")
    number: int = struct.unpack_from(code, data, at)[0]
    return number
