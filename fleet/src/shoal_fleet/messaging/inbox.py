"""What waits for the one worker, and what is left out when it can't keep up?

Batches wait in line up to a number of bytes, in all and of one device; beyond it they are left out, as the device sends
again whatever isn't acknowledged. Of everything else only the newest counts, so it takes the place of the one before
and is never left out.
"""

import threading
import time
from collections import OrderedDict, deque
from typing import NamedTuple

from shoal_wire.topics import Topic, Up

from shoal_fleet.rollouts.publication import Receipt

MAX_BYTES = 32 << 20
MAX_BYTES_OF_DEVICE = 2 << 20


class Message(NamedTuple):
    """What came over the broker."""

    topic: Topic
    payload: bytes


class Load(NamedTuple):
    """How much waits at one moment."""

    messages: int
    """And other work."""
    batch_bytes: int
    lag_s: float
    """How long it is since nothing waited."""
    left_out: int
    """Batches that found no room since the start."""


class Connected:
    """There is a new connection to the broker."""


class Woken:
    """There may be something to publish."""


Work = Message | Receipt | Connected | Woken


class Inbox:
    """Between the threads of connection and API, which put, and the worker, which takes."""

    def __init__(self, *, max_bytes: int = MAX_BYTES, max_bytes_of_device: int = MAX_BYTES_OF_DEVICE) -> None:
        self._max_bytes = max_bytes
        self._max_bytes_of_device = max_bytes_of_device
        self._changed = threading.Condition()
        self._newest: OrderedDict[Topic | str, Work] = OrderedDict()
        self._batches: deque[Message] = deque()
        self._bytes_of: dict[str, int] = {}
        self._bytes = 0
        self._left_out = 0
        self._is_closed = False
        self._waiting_since: float | None = None

    @property
    def load(self) -> Load:
        """How much waits now."""
        with self._changed:
            since = self._waiting_since
            lag_s = 0.0 if since is None else time.monotonic() - since
            return Load(len(self._newest) + len(self._batches), self._bytes, lag_s, self._left_out)

    @property
    def left_out(self) -> int:
        """How many batches were left out."""
        return self._left_out

    def put(self, work: Work) -> bool:
        """Let it wait; False where a batch is left out."""
        with self._changed:
            if isinstance(work, Message) and work.topic.channel is Up.BATCH:
                if not self._has_room(work):
                    self._left_out += 1
                    return False
                self._batches.append(work)
                self._count(work, 1)
            else:
                self._newest[_key(work)] = work
            self._note_waiting()
            self._changed.notify()
            return True

    def put_back(self, work: Work) -> None:
        """Let it wait again, unless it is a batch or a newer one waits already."""
        with self._changed:
            if not (isinstance(work, Message) and work.topic.channel is Up.BATCH):
                self._newest.setdefault(_key(work), work)
                self._note_waiting()

    def take(self, *, timeout_s: float) -> Work | None:
        """What is next; None where nothing came in time, or the inbox was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._newest or self._batches or self._is_closed, timeout_s)
            if self._is_closed:
                return None
            work = self._pop()
            self._note_waiting()
            return work

    def close(self) -> None:
        """Nothing will be taken any more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _pop(self) -> Work | None:
        if self._newest:
            return self._newest.popitem(last=False)[1]
        if self._batches:
            batch = self._batches.popleft()
            self._count(batch, -1)
            return batch
        return None

    def _note_waiting(self) -> None:
        if not (self._newest or self._batches):
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = time.monotonic()

    def _has_room(self, batch: Message) -> bool:
        size = len(batch.payload)
        of_device = self._bytes_of.get(batch.topic.device, 0)
        return self._bytes + size <= self._max_bytes and of_device + size <= self._max_bytes_of_device

    def _count(self, batch: Message, sign: int) -> None:
        size = sign * len(batch.payload)
        self._bytes += size
        left = self._bytes_of.get(batch.topic.device, 0) + size
        if left:
            self._bytes_of[batch.topic.device] = left
        else:
            self._bytes_of.pop(batch.topic.device, None)


def _key(work: Work) -> Topic | str:
    """Of two with the same key, the newer one alone counts."""
    if isinstance(work, Message):
        return work.topic
    if isinstance(work, Receipt):
        return work.device_id
    return type(work).__name__
