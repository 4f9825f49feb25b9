"""How do waiting rows reach the fleet, each in its order, over a broker that may lose some?

Go-back-N: a few signed batches of the oldest stream are on their way. The fleet's signed acknowledgement moves the
window on; where none comes in time, all is sent again from the last acknowledged row. A broker's own acknowledgement
means nothing here.
"""

import asyncio
import functools
import logging
import time
from collections import deque
from collections.abc import Callable

import msgspec
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.envelope import Signer
from shoal_wire.messages import Ack, Batch, Lost

from shoal_agent.daemon.outbox import Head, Outbox, Run
from shoal_agent.daemon.recording import Recorder

WINDOW_BATCHES = 4
FIRST_TIMEOUT_S = 5.0
MOST_TIMEOUT_S = 60.0
RETRY_S = 1.0
_LOG = logging.getLogger(__name__)


class Window:
    """The rules of what is sent next. Times are the caller's, in seconds of one clock that only grows."""

    def __init__(self) -> None:
        self.stream: str | None = None
        self.sent = 0
        """Sequence up to which rows are on their way."""
        self._acknowledged = 0
        self._last = 0
        self._fleet_has: int | None = None
        self._in_flight: deque[int] = deque()
        self._deadline = 0.0
        self._timeout_s = FIRST_TIMEOUT_S

    def follow(self, head: Head | None) -> None:
        """Look at the oldest stream that has something to send."""
        if head is None:
            self.stream = None
            return
        if head.stream != self.stream:
            self.stream, self._acknowledged, self._fleet_has = head.stream, head.acknowledged, None
            self.go_back()
        self._last = head.last

    def may_send(self) -> bool:
        """Whether another batch may go out."""
        return self.stream is not None and len(self._in_flight) < WINDOW_BATCHES

    def note_sent(self, run: Run, *, now: float) -> None:
        """A run is on its way."""
        if not self._in_flight:
            self._deadline = now + self._timeout_s
        self._in_flight.append(run.last)
        self.sent = run.last
        self._last = max(self._last, run.last)

    def note_acknowledged(self, ack: Ack, *, now: float) -> None:
        """The fleet said how far it is. That it is behind what it said before is only looked at once time is up."""
        if ack.stream != self.stream or ack.sequence > self._last:
            return
        self._fleet_has = ack.sequence
        if ack.sequence > self._acknowledged:
            self._acknowledged = ack.sequence
            self.sent = max(self.sent, ack.sequence)
            while self._in_flight and self._in_flight[0] <= ack.sequence:
                self._in_flight.popleft()
            self._timeout_s = FIRST_TIMEOUT_S
            self._deadline = now + self._timeout_s

    def wait_s(self, *, now: float) -> float | None:
        """Seconds until time is up; None when nothing is on its way."""
        return max(0.0, self._deadline - now) if self._in_flight else None

    def time_out(self) -> None:
        """No acknowledgement came: send again, and wait longer the next time.

        A fleet that was restored from a backup has less than it once acknowledged. The rows are gone here, so the next
        run starts after what it has and declares them lost.
        """
        self._timeout_s = min(self._timeout_s * 2, MOST_TIMEOUT_S)
        self.go_back()
        if self._fleet_has is not None and self._fleet_has < self._acknowledged:
            self.sent = self._fleet_has
        self._fleet_has = None

    def go_back(self) -> None:
        """Take nothing that was sent for delivered, as after a new connection."""
        self._in_flight.clear()
        self.sent = self._acknowledged

    def reason_lost(self, run: Run) -> str:
        """Why the rows before a run are missing."""
        assert run.lost is not None
        if run.lost[1] <= self._acknowledged:
            return "the fleet has acknowledged these rows before, and forgotten them since"
        return "the device's outbox was full"


class Delivery:
    """Sends what waits in the outbox."""

    def __init__(self, recorder: Recorder, *, device: str, signer: Signer, publish: Callable[[bytes], bool]) -> None:
        """`publish` takes a signed batch for its topic, and says False when it can take none now."""
        self._recorder = recorder
        self._device = device
        self._signer = signer
        self._publish = publish
        self._window = Window()
        self._is_connected = False
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """There may be something to send."""
        self._wake.set()

    def connected(self, is_connected: bool) -> None:
        """The link came or went."""
        self._is_connected = is_connected
        self._window.go_back()
        self._wake.set()

    async def acknowledge(self, ack: Ack) -> None:
        """Take a verified acknowledgement."""
        covered = await self._recorder.acknowledge(ack)
        self._window.note_acknowledged(msgspec.structs.replace(ack, sequence=covered), now=time.monotonic())
        self._wake.set()

    async def serve(self) -> None:
        """Send until cancelled."""
        while True:
            self._wake.clear()
            if self._is_connected:
                await self._send()
            try:
                async with asyncio.timeout(self._window.wait_s(now=time.monotonic())):
                    await self._wake.wait()
            except TimeoutError:
                self._window.time_out()

    async def _send(self) -> None:
        """Fill the window."""
        window = self._window
        window.follow(await self._recorder.in_outbox(Outbox.head))
        while window.stream is not None and window.may_send():
            stream, after = window.stream, window.sent
            run = await self._recorder.in_outbox(functools.partial(Outbox.run, stream=stream, after=after))
            if (window.stream, window.sent) != (stream, after):
                continue  # an acknowledgement or a new connection came meanwhile
            if run is None:
                return
            if not self._publish(self._seal(run)):
                asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)
                return
            window.note_sent(run, now=time.monotonic())

    def _seal(self, run: Run) -> bytes:
        lost = Lost(*run.lost, reason=self._window.reason_lost(run)) if run.lost else None
        batch = Batch(
            device=self._device,
            stream=run.stream,
            first=run.first,
            rows=tuple(msgspec.Raw(row) for row in run.rows),
            lost=lost,
        )
        return envelope.seal(encode(batch), envelope.BATCH, self._signer)
