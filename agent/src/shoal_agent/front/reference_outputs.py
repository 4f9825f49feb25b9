"""Are a model's outputs for a golden case those that its publisher recorded?

Answers are made to be stable: damage to a network often leaves those of the golden cases as they were, while it moves
its outputs. A recorded file is a NumPy .npz, as `numpy.savez` and the workbench write it. It comes from outside, so its
bounds are checked before anything is made of it: its own size, the number of its members, and what they hold.
"""

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadPipeline
from shoal_agent.front.operations.values import Tensors, Verdict

MAX_FILE_BYTES = 1 << 25
MAX_ARRAYS = 1024
MAX_ARRAY_BYTES = 1 << 25
"""Of all arrays of a file together."""
MAX_NAME_BYTES = 256
"""Of an array; names of tensors have 200 characters at most."""
_MEMBER = ".npy"
_END = struct.Struct("<4sHHHHIIH")
"""End of central directory record: APPNOTE.TXT of PKWARE, section 4.3.16."""
_END_MAGIC, _END_MAGIC_64, _END_64_BYTES = b"PK\5\6", b"PK\6\7", 20
_ENTRY_BYTES = 46 + MAX_NAME_BYTES + 64
"""The most of the directory that one member may take; section 4.3.12."""


class Place(NamedTuple):
    """Which array of a case: number of the call, from 0, and the output's name in the model's signature."""

    call: int
    output: str


Reference = Mapping[Place, NDArray[np.float32]]


def read_reference(chunks: Iterable[bytes], *, what: str) -> Reference:
    """The recorded arrays of a case. `chunks` are the file's bytes.

    Raises:
        BadPipeline: it isn't such a file, it is larger than allowed, or it holds what isn't a finite number.
        Whatever `chunks` raises.
    """
    what = f"reference outputs {what}"
    raw = _join(chunks, what=what)
    _check_directory(raw, what=what)
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if not 0 < len(members) <= MAX_ARRAYS or total > MAX_ARRAY_BYTES:
                raise BadPipeline(
                    f"{what}: {len(members)} arrays of {total} bytes, expected 1 to {MAX_ARRAYS} of {MAX_ARRAY_BYTES}"
                )
            return {
                _place(member.filename, what=what): _array(archive.read(member), what=f"{what}: {member.filename}")
                for member in members
            }
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError, zlib.error) as error:
        raise BadPipeline(f"{what}: not a NumPy .npz file: {error}") from None


def compare_outputs(outputs: Sequence[Tensors], reference: Reference, *, maximum_difference: float) -> Verdict:
    """Judge the outputs of a case's calls, in their order. Words name the array that is farthest off."""
    worst, words = 0.0, ""
    for place, expected in reference.items():
        name = f"output {place.output!r} of call {place.call}"
        if place.call >= len(outputs):
            return _fail(f"{name}: there were {len(outputs)} calls")
        found = outputs[place.call].get(place.output)
        if found is None:
            return _fail(f"{name}: missing, found {sorted(outputs[place.call])}")
        if found.shape != expected.shape:
            return _fail(f"{name}: expected the shape {list(expected.shape)}, found {list(found.shape)}")
        difference = relative_difference(found, expected)
        if not math.isfinite(difference):
            return _fail(f"{name}: holds what isn't a finite number")
        if difference >= worst:
            worst, words = difference, f"{name}: differs by {difference:.2g}, allowed are {maximum_difference:.2g}"
    return Verdict(passed=worst <= maximum_difference, score=max(0.0, 1 - worst / maximum_difference), words=words)


def relative_difference(found: NDArray[Any], reference: NDArray[Any]) -> float:
    """Root mean square of the differences, divided by that of the reference, unless it is all zeros.

    Not finite where `found` isn't. Both have the same shape.
    """
    if not reference.size:
        return 0.0
    expected = reference.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):  # the result says so
        difference = _root_mean_square(found.astype(np.float64) - expected)
    return difference / (_root_mean_square(expected) or 1.0)


def _root_mean_square(values: NDArray[np.float64]) -> float:
    flat = values.ravel()
    return math.sqrt(float(flat @ flat) / flat.size)


def _fail(words: str) -> Verdict:
    return Verdict(passed=False, score=0.0, words=words)


def _join(chunks: Iterable[bytes], *, what: str) -> bytes:
    joined, size_bytes = [], 0
    for chunk in chunks:
        joined.append(chunk)
        size_bytes += len(chunk)
        if size_bytes > MAX_FILE_BYTES:
            raise BadPipeline(f"{what}: longer than {MAX_FILE_BYTES} bytes, which are all that it may have")
    return b"".join(joined)


def _check_directory(raw: bytes, *, what: str) -> None:
    """Bound the list of members before `zipfile` reads it: a file of the greatest size could hold a million."""
    end = raw[-_END.size :]
    before = raw[-_END.size - _END_64_BYTES : -_END.size]
    if len(end) < _END.size or not end.startswith(_END_MAGIC) or before.startswith(_END_MAGIC_64):
        raise BadPipeline(f"{what}: not a NumPy .npz file: it doesn't end with a ZIP directory of 32 bits")
    *_, entries, directory_bytes, _, _ = _END.unpack(end)
    if entries > MAX_ARRAYS or directory_bytes > MAX_ARRAYS * _ENTRY_BYTES:
        raise BadPipeline(f"{what}: {entries} arrays, expected at most {MAX_ARRAYS}")


def _place(member: str, *, what: str) -> Place:
    call, slash, output = member.removesuffix(_MEMBER).partition("/")
    if not (slash and output and call.isascii() and call.isdecimal() and len(call) < 10 and member.endswith(_MEMBER)):
        raise BadPipeline(f"{what}: {member[:MAX_NAME_BYTES]!r}, expected <call>/<output>{_MEMBER}")
    return Place(int(call), output)


def _array(raw: bytes, *, what: str) -> NDArray[np.float32]:
    """The array of an .npy file: NEP 1. Its header says nothing about memory that isn't there."""
    file = io.BytesIO(raw)
    if npy.read_magic(file) != (1, 0):
        raise BadPipeline(f"{what}: expected version 1.0 of the .npy format")
    shape, is_fortran, dtype = npy.read_array_header_1_0(file)
    data = memoryview(raw)[file.tell() :]
    if dtype != np.dtype("<f4") or is_fortran or len(data) != 4 * math.prod(shape):
        raise BadPipeline(f"{what}: {dtype} {list(shape)} in {len(data)} bytes, expected float32, the last axis first")
    array = np.frombuffer(data, "<f4").reshape(shape)
    if not np.isfinite(array).all():
        raise BadPipeline(f"{what}: holds what isn't a finite number")
    return array
