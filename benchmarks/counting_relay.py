"""How many bytes does a board send and receive? A relay on loopback between a board and the fleet asks the kernel.

`TCP_INFO` of the connection to the board says how many bytes and segments came and went. To the payload, which holds
TLS and MQTT, the headers of IPv4 and TCP are added: what a meter on the board's uplink would count but for Ethernet's.
"""

import contextlib
import socket
import struct
import threading
from typing import NamedTuple

HEADER_BYTES = 52
"""IPv4 20, TCP 20, and 12 for the time stamps that Linux asks for."""
_TCP_INFO_BYTES = 192
_BYTES_AT, _SEGMENTS_AT = 120, 136  # tcpi_bytes_acked, tcpi_bytes_received; tcpi_segs_out, tcpi_segs_in


class Traffic(NamedTuple):
    """Bytes with headers, as seen by the board."""

    sent_bytes: int = 0
    received_bytes: int = 0
    segments: int = 0

    @property
    def total_bytes(self) -> int:
        return self.sent_bytes + self.received_bytes


class CountingRelay:
    """Listens on a free port of the loopback and hands on to another one."""

    def __init__(self, port: int) -> None:
        self._to = ("127.0.0.1", port)
        self._ended = Traffic()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def traffic(self) -> Traffic:
        """Of all connections so far."""
        with self._lock:
            return _add(self._ended, *(_ask(one) for one in self._open))

    def close(self) -> None:
        """No more connections; those that are open go on."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                board, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(board,), name="relayed", daemon=True).start()

    def _serve(self, board: socket.socket) -> None:
        with self._lock:
            self._open.add(board)
        with contextlib.suppress(OSError), socket.create_connection(self._to) as fleet:
            back = threading.Thread(target=_pump, args=(fleet, board), name="relayed-back", daemon=True)
            back.start()
            _pump(board, fleet)
            back.join()
        with self._lock:
            self._open.discard(board)
            self._ended = _add(self._ended, _ask(board))
        board.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def _ask(board: socket.socket) -> Traffic:
    raw = board.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    to_board, from_board = struct.unpack_from("QQ", raw, _BYTES_AT)
    segments_out, segments_in = struct.unpack_from("II", raw, _SEGMENTS_AT)
    return Traffic(
        sent_bytes=from_board + HEADER_BYTES * segments_in,
        received_bytes=to_board + HEADER_BYTES * segments_out,
        segments=segments_in + segments_out,
    )


def _add(*all_of: Traffic) -> Traffic:
    return Traffic(*map(sum, zip(*all_of, strict=True)))
