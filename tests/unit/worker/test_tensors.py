"""Do tensors arrive as they were sent, and stay inside their memory?"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_worker.channel import BadMessage, Channel, ChannelTimeout
from shoal_worker.errors import BadTensor
from shoal_worker.messages import TensorRecord
from shoal_worker.tensors import DTYPES, TensorReader, TensorWriter, plan_layout

Array = npt.NDArray[Any]

arrays = st.dictionaries(
    st.text(max_size=5),
    st.builds(
        lambda dtype, shape: np.arange(int(np.prod(shape))).reshape(shape).astype(dtype),
        st.sampled_from(sorted(DTYPES)),
        st.lists(st.integers(0, 5), max_size=4),
    ),
    max_size=5,
)


class Pipe:
    """A writer, a reader, and the channel between them."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.sending, self.receiving = Channel(ours), Channel(theirs)
        self.writer, self.reader = TensorWriter(self.sending, lane=0), TensorReader()
        self.passed = 0

    def transfer(self, tensors: dict[str, Array]) -> Mapping[str, Array]:
        records = self.writer.write(tensors)
        self.pass_on()
        return self.reader.read(records)

    def pass_on(self) -> None:
        """Memory, if there is new one."""
        try:
            _, fds = self.receiving.receive(0)
        except ChannelTimeout:
            return
        self.reader.take(fds)
        os.close(fds[0])
        self.passed += 1

    def close(self) -> None:
        self.writer.close()
        self.reader.close()
        self.sending.close()
        self.receiving.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@given(first=arrays, second=arrays)
def test_tensors_arrive_as_they_were_sent(first: dict[str, Array], second: dict[str, Array]) -> None:
    pipe = Pipe()
    for tensors in (first, second):
        received = pipe.transfer(tensors)
        assert received.keys() == tensors.keys()
        for name, array in tensors.items():
            assert received[name].dtype == array.dtype
            np.testing.assert_array_equal(received[name], array)
    pipe.close()


def test_strided_and_foreign_byte_order_tensors_arrive(pipe: Pipe) -> None:
    turned = np.arange(12, dtype=np.int32).reshape(3, 4).T
    swapped = np.array([1.5, -2.0], dtype=">f4")
    received = pipe.transfer({"turned": turned, "swapped": swapped})
    assert received["turned"].tolist() == turned.tolist()
    assert received["swapped"].tolist() == [1.5, -2.0]


def test_memory_is_passed_once_and_again_only_to_grow(pipe: Pipe) -> None:
    small, large = np.ones(10, np.float32), np.ones(100_000, np.float32)
    before = len(os.listdir("/proc/self/fd"))
    passed = []
    for array in (small, small, large, small, large):
        pipe.transfer({"x": array})
        passed.append(pipe.passed)
    assert passed == [1, 1, 2, 2, 2]
    assert len(os.listdir("/proc/self/fd")) == before + 2  # one for each mapping


def test_layout_is_announced_once_and_again_when_it_changes(pipe: Pipe) -> None:
    flat, square = np.arange(4, dtype=np.int8), np.arange(4, dtype=np.int8).reshape(2, 2)
    announced = []
    for array in (flat, flat + 1, square, square.astype(np.uint8), square.astype(np.uint8)):
        records = pipe.writer.write({"x": array})
        announced.append(records is not None)
        pipe.pass_on()
        assert pipe.reader.read(records)["x"].tolist() == array.tolist()
    assert announced == [True, False, True, True, False]


def test_tensors_that_lie_as_none_did_are_refused() -> None:
    with pytest.raises(BadMessage, match="there were none"):
        TensorReader().read(None)


def test_layout_is_forgotten_with_the_memory(pipe: Pipe) -> None:
    pipe.transfer({"x": np.ones(1, np.float32)})
    pipe.writer.close()
    assert pipe.writer.write({"x": np.ones(1, np.float32)}) is not None
    pipe.pass_on()
    with pytest.raises(BadMessage, match="there were none"):
        pipe.reader.read(None)


@given(shapes=st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=6))
def test_tensors_are_aligned_and_never_overlap(shapes: list[list[int]]) -> None:
    tensors = {str(index): np.zeros(shape, np.int16) for index, shape in enumerate(shapes)}
    records, size_bytes = plan_layout(tensors)
    end = 0
    for record in records:
        assert record.offset % 64 == 0
        assert record.offset >= end
        end = record.offset + tensors[record.name].nbytes
    assert end <= size_bytes


@pytest.mark.parametrize("array", [np.array(["text"]), np.array([object()]), np.array([1j])])
def test_types_that_cannot_travel_are_refused(pipe: Pipe, array: Array) -> None:
    with pytest.raises(BadTensor, match="tensor 'x' must be of type"):
        pipe.transfer({"x": array})


@pytest.mark.parametrize(
    "record",
    [
        TensorRecord(name="x", dtype="float32", shape=(1 << 14,), offset=4),
        TensorRecord(name="x", dtype="float32", shape=(1 << 40, 1 << 40), offset=0),
        TensorRecord(name="x", dtype="uint8", shape=(), offset=1 << 16),
        TensorRecord(name="x", dtype="object", shape=(), offset=0),
    ],
    ids=["over-the-end", "astronomic", "at-the-end", "type"],
)
def test_tensors_outside_the_memory_are_refused(pipe: Pipe, record: TensorRecord) -> None:
    pipe.transfer({"x": np.ones(1, np.float32)})  # passes 64 KiB on
    with pytest.raises(BadMessage):
        pipe.reader.read([record])


def test_tensors_without_memory_are_refused() -> None:
    with pytest.raises(BadMessage, match="before the memory"):
        TensorReader().read([TensorRecord(name="x", dtype="int8", shape=(), offset=0)])
