"""Does an ONNX file ask for other files, which an engine would then look for on the disk?

Reads just enough of the Protocol Buffers encoding (protobuf.dev, "Encoding") and of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_MAX_DEPTH = 64  # of graphs in graphs

# Fields of each message that lead to tensors, and the message that each holds.
_FIELDS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL_DATA, _DATA_LOCATION = 13, 14  # of a tensor; location 1 is "external"


def find_external_file(model: bytes) -> bool:
    """Whether a tensor says that its values are in another file. Bytes that are no ONNX file at all say nothing."""
    return _asks(model, message="model", begin=0, end=len(model), depth=0)


def _asks(data: bytes, *, message: str, begin: int, end: int, depth: int) -> bool:
    if depth > _MAX_DEPTH:
        return True  # nobody writes such a file, so it isn't searched to its bottom
    inner = _FIELDS.get(message, {})
    for field, first, last in _fields(data, begin=begin, end=end):
        if message == "tensor":
            if field == _EXTERNAL_DATA or (field == _DATA_LOCATION and first == 1):
                return True
        elif field in inner and _asks(data, message=inner[field], begin=first, end=last, depth=depth + 1):
            return True
    return False


def _fields(data: bytes, *, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Number, first and last byte of each field; of a whole number its value in place of the first byte.

    Ends at what is no field.
    """
    at = begin
    while at < end:
        key, at = _varint(data, at, end=end)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at, end=end)
            yield key >> 3, value, at
            continue
        if kind == _BYTES:
            length, at = _varint(data, at, end=end)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            return
        if at + length > end:
            return
        if kind == _BYTES:
            yield key >> 3, at, at + length
        at += length


def _varint(data: bytes, at: int, *, end: int) -> tuple[int, int]:
    """A number, and where what follows it begins."""
    value = shift = 0
    while at < end and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, end
