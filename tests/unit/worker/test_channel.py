"""Does the channel keep frames whole, bounded and with their descriptors?"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_worker.channel import (
    MAX_FDS,
    PROTOCOL_VERSION,
    BadMessage,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
)

WAIT_S = 10.0

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
messages = st.dictionaries(st.text(), json_values, max_size=5)


@pytest.fixture
def raw_and_channel() -> Iterator[tuple[socket.socket, Channel]]:
    """A bare socket in the hands of the test, and the channel at its other end."""
    raw, other = socket.socketpair()
    channel = Channel(other)
    yield raw, channel
    channel.close()
    raw.close()


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    left, right = socket.socketpair()
    pair = Channel(left), Channel(right)
    yield pair
    for channel in pair:
        channel.close()


@pytest.fixture
def open_file() -> Iterator[int]:
    fd = os.memfd_create("test")
    os.write(fd, b"hello")
    yield fd
    os.close(fd)


def count_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def frame(message: object) -> bytes:
    """The frame as the protocol text describes it, made without the code under test."""
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


@given(sent=st.lists(messages, max_size=4), cuts=st.lists(st.integers(1, 40), max_size=20))
def test_frames_survive_any_way_of_being_cut_in_pieces(sent: list[dict[str, object]], cuts: list[int]) -> None:
    raw, other = socket.socketpair()
    channel = Channel(other)
    stream = b"".join(frame(message) for message in sent)

    def write_in_pieces() -> None:
        rest = stream
        for cut in cuts:
            raw.sendall(rest[:cut])
            rest = rest[cut:]
        raw.sendall(rest)

    writer = threading.Thread(target=write_in_pieces)
    writer.start()
    received = [channel.receive(WAIT_S)[0] for _ in sent]
    writer.join()
    assert received == sent
    channel.close()
    raw.close()


@given(message=messages)
def test_sends_what_a_plain_reader_of_the_format_reads(message: dict[str, object]) -> None:
    raw, other = socket.socketpair()
    channel = Channel(other)
    channel.send(message)
    channel.close()
    stream = b"".join(iter(lambda: raw.recv(65536), b""))
    raw.close()
    assert struct.unpack(">I", stream[:4]) == (len(stream) - 4,)
    assert json.loads(stream[4:]) == message


def test_timeout_in_the_middle_of_a_frame_loses_nothing(raw_and_channel: tuple[socket.socket, Channel]) -> None:
    raw, channel = raw_and_channel
    whole = frame({"type": "x"})
    raw.sendall(whole[:7])
    with pytest.raises(ChannelTimeout):
        channel.receive(0)
    raw.sendall(whole[7:])
    assert channel.receive(WAIT_S) == ({"type": "x"}, [])


def test_descriptors_come_with_their_own_frame(channels: tuple[Channel, Channel], open_file: int) -> None:
    left, right = channels
    left.send({"n": 1})
    left.send({"n": 2}, fds=[open_file, open_file])
    left.send({"n": 3})
    received = [right.receive(WAIT_S) for _ in range(3)]
    assert [(message["n"], len(fds)) for message, fds in received] == [(1, 0), (2, 2), (3, 0)]
    for fd in received[1][1]:
        assert os.pread(fd, 5, 0) == b"hello"
        assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
        os.close(fd)


def test_descriptors_survive_a_timeout_in_their_frame(
    raw_and_channel: tuple[socket.socket, Channel], open_file: int
) -> None:
    raw, channel = raw_and_channel
    whole = frame({"n": 1})
    socket.send_fds(raw, [whole[:2]], [open_file])
    with pytest.raises(ChannelTimeout):
        channel.receive(0)
    raw.sendall(whole[2:])
    _, fds = channel.receive(WAIT_S)
    assert os.pread(fds[0], 5, 0) == b"hello"
    os.close(fds[0])


def test_many_threads_may_send(channels: tuple[Channel, Channel]) -> None:
    left, right = channels
    text = "x" * 100_000  # more than a socket buffer takes at once
    threads = [threading.Thread(target=left.send, args=({"n": n, "text": text},)) for n in range(8)]
    for thread in threads:
        thread.start()
    received = [right.receive(WAIT_S)[0] for _ in threads]
    for thread in threads:
        thread.join()
    assert sorted(int(str(message["n"])) for message in received) == list(range(8))
    assert all(message["text"] == text for message in received)


@pytest.mark.parametrize("sent_bytes", [0, 2, 6])
def test_end_of_the_other_side_is_told(raw_and_channel: tuple[socket.socket, Channel], sent_bytes: int) -> None:
    raw, channel = raw_and_channel
    raw.sendall(frame({"type": "x"})[:sent_bytes])
    raw.close()
    with pytest.raises(ChannelClosed):
        channel.receive(WAIT_S)
    with pytest.raises(ChannelClosed):
        channel.send({"type": "y"})


def test_close_wakes_a_thread_that_receives(channels: tuple[Channel, Channel]) -> None:
    left, _ = channels
    errors: list[ChannelError] = []

    def receive() -> None:
        try:
            left.receive(None)
        except ChannelError as error:
            errors.append(error)

    thread = threading.Thread(target=receive)
    thread.start()
    left.close()
    thread.join(WAIT_S)
    assert [type(error) for error in errors] == [ChannelClosed]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[1]",
        b'"text"',
        b"{",
        b'{"a": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
    ids=["empty", "list", "text", "cut", "nan", "not-utf8", "deep"],
)
def test_refuses_frames_that_hold_no_json_object(
    raw_and_channel: tuple[socket.socket, Channel], body: bytes, open_file: int
) -> None:
    raw, channel = raw_and_channel
    before = count_descriptors()
    socket.send_fds(raw, [struct.pack(">I", len(body)) + body], [open_file])
    with pytest.raises(BadMessage):
        channel.receive(WAIT_S)
    assert count_descriptors() == before - 1  # the descriptor that came is closed, and so is the channel


def test_refuses_a_frame_over_the_limit_before_reading_it() -> None:
    raw, other = socket.socketpair()
    channel = Channel(other, max_frame_bytes=100)
    raw.sendall(struct.pack(">I", 101))
    with pytest.raises(BadMessage, match="100 bytes, one of 101"):
        channel.receive(WAIT_S)
    raw.close()


def test_refuses_to_send_what_the_other_side_would_refuse(channels: tuple[Channel, Channel], open_file: int) -> None:
    left, right = channels
    with pytest.raises(BadMessage):
        left.send({"text": "x" * (1 << 20)})
    with pytest.raises(BadMessage):
        left.send({"bytes": b"x"})
    with pytest.raises(BadMessage):
        left.send({"nan": float("nan")})
    with pytest.raises(BadMessage):
        left.send({}, fds=[open_file] * (MAX_FDS + 1))
    left.send({"still": "good"})
    assert right.receive(WAIT_S) == ({"still": "good"}, [])


def test_too_many_descriptors_in_a_frame_are_refused_and_closed(
    raw_and_channel: tuple[socket.socket, Channel], open_file: int
) -> None:
    raw, channel = raw_and_channel
    before = count_descriptors()
    socket.send_fds(raw, [frame({})], [open_file] * (MAX_FDS + 5))
    with pytest.raises(BadMessage, match="at most 16 descriptors"):
        channel.receive(WAIT_S)
    assert count_descriptors() == before - 1


def test_closes_descriptors_that_nobody_was_handed(
    raw_and_channel: tuple[socket.socket, Channel], open_file: int
) -> None:
    raw, channel = raw_and_channel
    before = count_descriptors()
    socket.send_fds(raw, [frame({})[:3]], [open_file])
    with pytest.raises(ChannelTimeout):
        channel.receive(0)
    channel.close()
    assert count_descriptors() == before - 1


def test_errors_show_nothing_of_a_frame(raw_and_channel: tuple[socket.socket, Channel]) -> None:
    raw, channel = raw_and_channel
    secret = b'{"key": "5ecret", broken'
    raw.sendall(struct.pack(">I", len(secret)) + secret)
    with pytest.raises(BadMessage) as caught:
        channel.receive(WAIT_S)
    error: BaseException | None = caught.value
    while error is not None:
        assert "5ecret" not in repr(vars(error)) + str(error)
        error = error.__context__
    with pytest.raises(BadMessage) as caught:
        raw_channel = Channel(raw)
        raw_channel.send({"key": {"5ecret": b""}})
    assert "5ecret" not in str(caught.value)


def test_a_peer_that_takes_nothing_ends_the_channel(channels: tuple[Channel, Channel]) -> None:
    left, _ = channels
    with pytest.raises(ChannelClosed, match="took no more bytes"):
        for _ in range(1000):
            left.send({"text": "x" * 100_000}, timeout_s=0)
    with pytest.raises(ChannelClosed):
        left.send({})


def greet_in_thread(channel: Channel, *, role: str) -> tuple[threading.Thread, list[object]]:
    outcome: list[object] = []

    def greet() -> None:
        try:
            outcome.append(channel.greet(role=role, timeout_s=WAIT_S))
        except ChannelError as error:
            outcome.append(error)

    thread = threading.Thread(target=greet)
    thread.start()
    return thread, outcome


def test_both_sides_learn_the_other_role(channels: tuple[Channel, Channel]) -> None:
    left, right = channels
    thread, outcome = greet_in_thread(left, role="front")
    assert right.greet(role="worker", timeout_s=WAIT_S) == "front"
    thread.join(WAIT_S)
    assert outcome == ["worker"]


def test_another_protocol_version_is_refused_with_both_named(
    raw_and_channel: tuple[socket.socket, Channel],
) -> None:
    raw, channel = raw_and_channel
    raw.sendall(frame({"type": "hello", "protocol": PROTOCOL_VERSION + 1, "role": "updater"}))
    with pytest.raises(ChannelError, match=r"daemon speaks protocol version 1, updater speaks version 2"):
        channel.greet(role="daemon", timeout_s=WAIT_S)


@pytest.mark.parametrize(
    "first",
    [{"type": "load"}, {"type": "hello", "role": "x"}, {"type": "hello", "protocol": 1, "role": 5}],
)
def test_something_else_than_a_hello_is_refused(
    raw_and_channel: tuple[socket.socket, Channel], first: dict[str, object], open_file: int
) -> None:
    raw, channel = raw_and_channel
    before = count_descriptors()
    socket.send_fds(raw, [frame(first)], [open_file])
    with pytest.raises(BadMessage, match="expected a hello"):
        channel.greet(role="daemon", timeout_s=WAIT_S)
    assert count_descriptors() == before - 1
