"""How do two processes of the agent talk over a Unix socket pair?

A frame is a 4-byte big-endian length and that many bytes of UTF-8 JSON, always an object, or of whatever else both
sides know. File descriptors may travel with a frame (SCM_RIGHTS, on its first byte). Both sides say hello first and
part when their protocol versions differ. Frames carry content keys between some processes, so no text of an error
holds a byte of a frame.

ChannelError            the two sides can't go on with each other
├── ChannelClosed       the other side ended, or the channel was closed
├── ChannelTimeout      nothing whole has come in time; the channel is still good
└── BadMessage          a message or descriptor isn't what the protocol says
"""

from __future__ import annotations

import array
import contextlib
import json
import math
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Mapping, Sequence

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 1 << 20
MAX_FDS = 16  # in one frame; the kernel's own limit is 253
SEND_TIMEOUT_S = 10.0
HELLO_TIMEOUT_S = 30.0  # starting an interpreter takes seconds on a small board

_HEADER = struct.Struct(">I")
_TRUNCATED = int(socket.MSG_CTRUNC)  # a plain number: an enum's `&` is slow
_FD_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(MAX_FDS * _FD_BYTES)


class ChannelError(Exception):
    """The two sides can't go on with each other."""


class ChannelClosed(ChannelError):
    """The other side has ended, or this side has closed the channel."""


class ChannelTimeout(ChannelError):
    """No whole frame came in time. What has come of it is kept for the next call."""


class BadMessage(ChannelError):
    """A frame, a message or a descriptor isn't what the protocol says."""


class Channel:
    """One end of a connected Unix stream socket. Any thread may send; one thread at a time may receive."""

    def __init__(self, sock: socket.socket, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        """Take over `sock`, which must be a connected Unix stream socket."""
        sock.setblocking(False)
        sock.set_inheritable(False)
        self._socket = sock
        self._max_frame_bytes = max_frame_bytes
        self._send_lock = threading.Lock()
        self._received = bytearray()  # of the frame that is coming in, its header first
        self._received_fds: list[int] = []

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """Take over the socket that a parent passed as descriptor `fd`."""
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        """The socket's descriptor, for a selector; -1 when closed."""
        return self._socket.fileno()

    def greet(self, *, role: str, timeout_s: float = HELLO_TIMEOUT_S) -> str:
        """Exchange hellos, first thing on both sides, and return the other side's role.

        Raises:
            ChannelError: the other side speaks another protocol version, or something that is no hello.
            ChannelTimeout, ChannelClosed: no hello came.
        """
        self.send({"type": "hello", "protocol": PROTOCOL_VERSION, "role": role})
        message, fds = self.receive(timeout_s)
        _close_all(fds)
        other_role, version = message.get("role"), message.get("protocol")
        if message.get("type") != "hello" or not isinstance(other_role, str) or not isinstance(version, int):
            self.close()
            raise BadMessage(f"{role} expected a hello with protocol and role first, found another message")
        if version != PROTOCOL_VERSION:
            self.close()
            raise ChannelError(
                f"{role} speaks protocol version {PROTOCOL_VERSION}, {other_role[:40]} speaks version {version}"
            )
        return other_role

    def send(
        self, message: Mapping[str, object], *, fds: Sequence[int] = (), timeout_s: float = SEND_TIMEOUT_S
    ) -> None:
        """Send one message; else as `send_frame`.

        Raises:
            BadMessage: not JSON. Nothing was sent and the channel is good.
        """
        self.send_frame(encode_json(message), fds=fds, timeout_s=timeout_s)

    def send_frame(self, body: bytes, *, fds: Sequence[int] = (), timeout_s: float = SEND_TIMEOUT_S) -> None:
        """Send one frame, with descriptors if given; the caller keeps and closes its own copies of these.

        Raises:
            BadMessage: too long, or too many descriptors. Nothing was sent and the channel is good.
            ChannelClosed: the other side has ended, or took nothing for `timeout_s` (the channel is closed
            then).
        """
        if len(body) > self._max_frame_bytes:
            raise BadMessage(f"a frame may have {self._max_frame_bytes} bytes, this one would have {len(body)}")
        if len(fds) > MAX_FDS:
            raise BadMessage(f"a frame carries at most {MAX_FDS} descriptors, found {len(fds)}")
        frame = memoryview(_HEADER.pack(len(body)) + body)
        deadline = time.monotonic() + timeout_s
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with self._send_lock:
            while frame:
                try:
                    sent = self._socket.sendmsg([frame], rights, socket.MSG_NOSIGNAL)
                except (BlockingIOError, InterruptedError):
                    self._wait_to_send(deadline)
                    continue
                except OSError as error:
                    raise ChannelClosed(f"the other side has ended: {error.strerror}") from error
                frame, rights = frame[sent:], []  # descriptors go with the first byte

    def receive(self, timeout_s: float | None) -> tuple[dict[str, object], list[int]]:
        """Return the next message; else as `receive_frame`.

        Raises:
            BadMessage: a frame that is no JSON object. The channel is closed: what follows can't be trusted.
        """
        body, fds = self.receive_frame(timeout_s)
        try:
            return decode_json(body), fds
        except BadMessage:
            _close_all(fds)
            self.close()
            raise

    def receive_frame(self, timeout_s: float | None) -> tuple[bytes, list[int]]:
        """Return the body of the next frame and the descriptors that came with it, which the caller must close.

        `timeout_s` None waits until the other side sends or ends. Received descriptors are close-on-exec.

        Raises:
            ChannelTimeout: no whole frame came in time; call again.
            ChannelClosed: the other side has ended. The channel is closed.
            BadMessage: a frame that breaks the protocol. The channel is closed: what follows can't be trusted.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            self._fill(_HEADER.size, deadline=deadline)
            (length,) = _HEADER.unpack_from(self._received)
            if length > self._max_frame_bytes:
                raise BadMessage(f"a frame may have {self._max_frame_bytes} bytes, one of {length} was announced")
            self._fill(_HEADER.size + length, deadline=deadline)
            body = bytes(memoryview(self._received)[_HEADER.size :])
        except ChannelTimeout:
            raise
        except ChannelError:
            self.close()
            raise
        fds, self._received_fds = self._received_fds, []
        self._received = bytearray()
        return body, fds

    def close(self) -> None:
        """Close this end, and descriptors that nobody was handed. A thread in `receive` gets ChannelClosed."""
        with contextlib.suppress(OSError):  # the other side is gone already, or this is the second call
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        fds, self._received_fds = self._received_fds, []
        _close_all(fds)

    def _fill(self, size: int, *, deadline: float | None) -> None:
        """Read until `size` bytes of the frame are here. Never reads past it: descriptors belong to their own frame."""
        while len(self._received) < size:
            missing = size - len(self._received)
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(missing, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC)
            except (BlockingIOError, InterruptedError):
                self._wait(select.POLLIN, deadline=deadline)
                continue
            except OSError as error:
                raise ChannelClosed(f"the channel is closed: {error.strerror}") from error
            self._received_fds += _descriptors(ancillary)
            if flags & _TRUNCATED or len(self._received_fds) > MAX_FDS:
                raise BadMessage(f"a frame carries at most {MAX_FDS} descriptors, more came")
            if not data:
                where = "in the middle of a frame" if self._received else "between frames"
                raise ChannelClosed(f"the other side has ended {where}")
            self._received += data

    def _wait_to_send(self, deadline: float) -> None:
        try:
            self._wait(select.POLLOUT, deadline=deadline)
        except ChannelTimeout:
            self.close()  # part of a frame may be out: nothing can follow it
            raise ChannelClosed("the other side took no more bytes in time, so the channel was closed") from None

    def _wait(self, event: int, *, deadline: float | None) -> None:
        fd = self._socket.fileno()
        if fd < 0:
            raise ChannelClosed("the channel was closed on this side")
        poller = select.poll()
        poller.register(fd, event)
        left_ms = None if deadline is None else max(0, math.ceil((deadline - time.monotonic()) * 1000))
        if not poller.poll(left_ms):
            raise ChannelTimeout("no whole frame came from the other side in time")


def encode_json(message: Mapping[str, object]) -> bytes:
    """The body of a frame with a message.

    Raises:
        BadMessage: not JSON.
    """
    try:
        return _ENCODER.encode(message).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadMessage(f"a message must be plain JSON: {type(error).__name__}") from None


def decode_json(body: bytes) -> dict[str, object]:
    """The message in the body of a frame.

    Raises:
        BadMessage: no JSON object.
    """
    message: object = None
    with contextlib.suppress(ValueError, RecursionError):  # not chained: the parser's error carries the whole text
        message = _DECODER.decode(body.decode())
    if not isinstance(message, dict):
        raise BadMessage(f"a frame must hold one JSON object, found {len(body)} bytes that don't")
    return message


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


# Made once: `json.dumps` and `json.loads` make one at each call, which a model of a tenth of a millisecond would feel.
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % _FD_BYTES])
    return fds.tolist()


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
