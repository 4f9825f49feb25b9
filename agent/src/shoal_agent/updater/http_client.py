"""How does the updater get bytes from the fleet's listener for devices?

TLS 1.3 with the device's certificate, no redirects, no retries of its own. A server that trickles is left: a gap of
`GAP_S` or a rate below `MINIMUM_BYTES_S` over a window ends the answer.
"""

import contextlib
import re
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import urllib3
from cryptography import x509

from shoal_agent.fleet_tls import FleetContext, trusting
from shoal_agent.updater.errors import TryLater

PIECE_BYTES = 64 << 10
GAP_S = 30.0
MINIMUM_BYTES_S = 1024
WINDOW_S = 60.0


class Answer(NamedTuple):
    """The start of an answer; its bytes are still to come."""

    status: int
    content_range: str | None
    length_bytes: int | None
    pieces: Iterator[bytes]
    """Raises TryLater when the connection breaks or is too slow."""
    retry_after_s: float | None = None
    """When the fleet wants to be asked again, if it said so in seconds (RFC 9110, section 10.2.3)."""


class RateWindow:
    """Whether bytes come fast enough, by times that the caller gives."""

    def __init__(self, *, now: float, minimum_bytes_s: float = MINIMUM_BYTES_S, window_s: float = WINDOW_S) -> None:
        """The first window starts `now`; times are in seconds of any clock that doesn't jump."""
        self._start, self._received_bytes = now, 0
        self._minimum_bytes_s, self._window_s = minimum_bytes_s, window_s

    def is_too_slow(self, received_bytes: int, *, now: float) -> bool:
        """Count bytes that just came; judges at the end of each window."""
        self._received_bytes += received_bytes
        lasted_s = now - self._start
        if lasted_s < self._window_s:
            return False
        too_slow = self._received_bytes < self._minimum_bytes_s * lasted_s
        self._start, self._received_bytes = now, 0
        return too_slow


class FleetHttp:
    """The listener for devices."""

    def __init__(
        self,
        url: str,
        *,
        context: FleetContext,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connects at the first request. `context` has the device's certificate."""
        self.url = url.rstrip("/")
        self._monotonic = monotonic
        self._context = context
        self._pool = urllib3.PoolManager(
            ssl_context=context,
            retries=False,
            timeout=urllib3.Timeout(connect=GAP_S, read=GAP_S),
            maxsize=1,
        )

    @contextlib.contextmanager
    def get(self, url: str, *, start: int = 0) -> Iterator[Answer]:
        """Ask for `url` from byte `start` on. The connection is used again only if the answer was read to its end.

        Raises:
            TryLater: the fleet can't be reached, or isn't who it should be.
        """
        headers = {"Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            response = self._pool.request("GET", url, headers=headers, preload_content=False, redirect=False)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise TryLater(f"{url}: {_describe(error)}") from error
        try:
            length = response.headers.get("Content-Length", "")
            retry_after = response.headers.get("Retry-After", "")
            yield Answer(
                status=response.status,
                content_range=response.headers.get("Content-Range"),
                length_bytes=int(length) if length.isdecimal() else None,
                pieces=self._read(response, url),
                retry_after_s=float(retry_after) if re.fullmatch(r"[0-9]{1,9}", retry_after) else None,
            )
        finally:
            response.close()

    def is_vouched_for_by(self, authorities: Sequence[x509.Certificate]) -> bool:
        """Whether the server that answers now is one that these authorities, and they alone, vouch for."""
        parts = urllib.parse.urlsplit(self.url)
        host, context = parts.hostname or "", trusting(authorities, at=self._context.at)
        try:
            with (
                socket.create_connection((host, parts.port or 443), timeout=GAP_S) as connection,
                context.wrap_socket(connection, server_hostname=host),
            ):
                return True
        except OSError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _read(self, response: urllib3.BaseHTTPResponse, url: str) -> Iterator[bytes]:
        window = RateWindow(now=self._monotonic())
        try:
            while piece := response.read1(PIECE_BYTES, decode_content=False):
                if window.is_too_slow(len(piece), now=self._monotonic()):
                    raise TryLater(f"{url}: slower than {MINIMUM_BYTES_S} bytes/s over {WINDOW_S:.0f} s")
                yield piece
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise TryLater(f"{url}: {_describe(error)}") from error


def _describe(error: Exception) -> str:
    """Of a broken connection urllib3 gives a text and the cause in a tuple; the cause says it all."""
    return str(error.args[-1]) if isinstance(error, urllib3.exceptions.ProtocolError) else str(error)
