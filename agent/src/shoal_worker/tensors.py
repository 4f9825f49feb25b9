"""How do tensors get to the other process without a copy through a socket?

Each side has a memfd for what it sends in each lane. It is passed once and reused; when tensors need more room, a
larger one takes its place. Making a fresh one for each tensor would cost ten times as much as reusing (page faults).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .channel import BadMessage, Channel
from .errors import BadTensor
from .memory import create_fixed, map_fixed
from .messages import Buffer, TensorRecord, encode_message

if TYPE_CHECKING:
    import mmap

    import numpy.typing as npt

    Array = npt.NDArray[Any]

WHOLE_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = {name: np.dtype(name) for name in ("bool", *WHOLE_DTYPES, "float16", "float32", "float64")}
_NAMES = {dtype.str[1:]: name for name, dtype in DTYPES.items()}  # without byte order; `dtype.name` is slow
ALIGNMENT = 64  # bytes; a cache line, and what vector units like best
MIN_BUFFER_BYTES = 1 << 16
MAX_BUFFER_BYTES = 1 << 31


class TensorWriter:
    """This side's memory in one lane, as the sender."""

    def __init__(self, channel: Channel, *, lane: int) -> None:
        self._channel = channel
        self._lane = lane
        self._mapping: mmap.mmap | None = None
        self._layout: list[tuple[str, Any, tuple[int, ...]]] | None = None
        self._views: list[Array] = []

    def write(self, arrays: Mapping[str, Array]) -> tuple[TensorRecord, ...] | None:
        """Copy the arrays into shared memory, in place of the last ones, and say where each lies.

        Returns None where they lie as the last ones did, which must have been announced. Sends a Buffer message first
        when the memory has to grow.

        Raises:
            BadTensor: a type that can't travel, or more than MAX_BUFFER_BYTES.
            ChannelError: the new memory couldn't be passed on.
        """
        layout = [(name, array.dtype, array.shape) for name, array in arrays.items()]
        records = None
        if layout != self._layout:
            records, size_bytes = plan_layout(arrays)
            if self._mapping is None or len(self._mapping) < size_bytes:
                self._grow(size_bytes)
            assert self._mapping is not None
            self._layout, self._views = layout, [_view(self._mapping, record) for record in records]
        for view, array in zip(self._views, arrays.values()):
            view[...] = array
        return records

    def close(self) -> None:
        """Give the memory back."""
        self._layout, self._views = None, []
        _release(self._mapping)
        self._mapping = None

    def _grow(self, size_bytes: int) -> None:
        self.close()
        # Powers of two, so that slowly growing inputs don't pass memory on every time. Untouched pages cost nothing.
        mapping, fd = create_fixed(max(MIN_BUFFER_BYTES, 1 << (size_bytes - 1).bit_length()))
        try:
            self._channel.send(encode_message(Buffer(lane=self._lane)), fds=[fd])
        except BaseException:
            mapping.close()
            raise
        finally:
            os.close(fd)
        self._mapping = mapping


class TensorReader:
    """The other side's memory in one lane, as the receiver."""

    def __init__(self) -> None:
        self._mapping: mmap.mmap | None = None
        self._views: dict[str, Array] | None = None

    def take(self, fds: Sequence[int]) -> None:
        """Map the memory that came with a Buffer message, in place of the last. The caller closes `fds`.

        Raises:
            BadMessage: not exactly one descriptor, or memory that isn't sealed against resizing.
        """
        if len(fds) != 1:
            raise BadMessage(f"a buffer message comes with one descriptor, found {len(fds)}")
        mapping = map_fixed(fds[0], max_bytes=MAX_BUFFER_BYTES)
        self.close()
        self._mapping = mapping

    def read(self, records: Sequence[TensorRecord] | None) -> Mapping[str, Array]:
        """Views into the other side's memory: they change when it writes the next tensors.

        With None for `records` the tensors lie as the last ones did.

        Raises:
            BadMessage: a record that doesn't lie in the memory, or of a type that can't travel.
        """
        if records is None:
            if self._views is None:
                raise BadMessage("tensors were announced to lie as the last ones did, and there were none")
            return self._views
        if self._mapping is None:
            if records:
                raise BadMessage("tensors were announced before the memory that holds them")
            return {}
        mapping = self._mapping
        self._views = {record.name: _view(mapping, record) for record in records}
        return self._views

    def close(self) -> None:
        """Give the memory back."""
        self._views = None
        _release(self._mapping)
        self._mapping = None


def plan_layout(arrays: Mapping[str, Array]) -> tuple[tuple[TensorRecord, ...], int]:
    """Where each array goes in a buffer, and how many bytes the buffer needs (at least one).

    Raises:
        BadTensor: a type that can't travel, or more than MAX_BUFFER_BYTES.
    """
    records = []
    end = 0
    for name, array in arrays.items():
        dtype = _NAMES.get(array.dtype.str[1:])
        if dtype is None:
            raise BadTensor(f"tensor {name!r} must be of type {', '.join(sorted(DTYPES))}; found {array.dtype.name}")
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        records.append(TensorRecord(name=name, dtype=dtype, shape=array.shape, offset=offset))
        end = offset + array.nbytes
    if end > MAX_BUFFER_BYTES:
        raise BadTensor(f"the tensors of one run may have {MAX_BUFFER_BYTES} bytes, found {end}")
    return tuple(records), max(end, 1)


def _view(mapping: mmap.mmap, record: TensorRecord) -> Array:
    dtype = DTYPES.get(record.dtype)
    if dtype is None:
        raise BadMessage("a tensor was announced with a type that can't travel")
    end = record.offset + math.prod(record.shape) * dtype.itemsize
    if end > len(mapping):
        raise BadMessage(f"a tensor was announced up to byte {end} of memory that has {len(mapping)}")
    return np.ndarray(record.shape, dtype=dtype, buffer=mapping, offset=record.offset)


def _release(mapping: mmap.mmap | None) -> None:
    if mapping is None:
        return
    with contextlib.suppress(BufferError):  # arrays still look into it: the memory goes with the last of them
        mapping.close()
