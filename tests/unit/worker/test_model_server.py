"""Are runs answered one at a time and in order, and may one be cancelled before its turn?"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from shoal_worker.channel import BadMessage, Channel, ChannelClosed
from shoal_worker.errors import RunCancelled
from shoal_worker.messages import (
    CANCEL,
    LANES,
    Answer,
    Buffer,
    Failed,
    Infer,
    Message,
    TensorSpec,
    pack_message,
    unpack_message,
)
from shoal_worker.model_server import ModelServer
from shoal_worker.tensors import TensorWriter

WAIT_S = 60.0


class GatedEngine:
    """Doubles `x`, once the test opens the gate for this run. It can't stop a run that goes on."""

    version = "1"
    placement: tuple[str, ...] = ("cpu",)
    devices: tuple[str, ...] = ("cpu",)
    plan: bytes | None = None
    inputs: tuple[TensorSpec, ...] = (TensorSpec("x", "float32", (1,)),)
    outputs: tuple[TensorSpec, ...] = (TensorSpec("y", "float32", (1,)),)

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.started: list[float] = []
        self.cancelled: list[float] = []

    def prepare(self, feeds: Mapping[str, Any]) -> GatedInference:
        return GatedInference(self, feeds["x"])


class GatedInference:
    def __init__(self, engine: GatedEngine, x: Any) -> None:
        self.engine = engine
        self.x = x
        self.is_cancelled = False

    def run(self) -> dict[str, Any]:
        if self.is_cancelled:
            raise RunCancelled("before it started")
        self.engine.started.append(float(self.x[0]))
        assert self.engine.gate.acquire(timeout=WAIT_S)
        return {"y": 2 * self.x}

    def cancel(self) -> None:
        self.is_cancelled = True
        self.engine.cancelled.append(float(self.x[0]))


class Front:
    """The other end of the channel."""

    def __init__(self, channel: Channel, *, cancels: int) -> None:
        self.channel = channel
        self.cancels = cancels
        self.inputs = [TensorWriter(channel, lane=lane) for lane in range(LANES)]

    def ask(self, run_id: int, *, lane: int) -> None:
        records = self.inputs[lane].write({"x": np.array([run_id], np.float32)})
        self.channel.send_frame(pack_message(Infer(id=run_id, lane=lane, inputs=records)))

    def hear(self) -> Message:
        while True:
            body, fds = self.channel.receive_frame(WAIT_S)
            for fd in fds:
                os.close(fd)
            parsed = unpack_message(body)
            if not isinstance(parsed, Buffer):
                return parsed


@pytest.fixture
def engine() -> GatedEngine:
    return GatedEngine()


@pytest.fixture
def ended() -> list[BaseException]:
    """What ended the server."""
    return []


@pytest.fixture
def front(engine: GatedEngine, ended: list[BaseException]) -> Iterator[Front]:
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    gone = threading.Event()
    channel = Channel(theirs)
    server = ModelServer(channel, engine=engine, cancels=reading, on_gone=gone.set)

    def serve() -> None:
        try:
            server.serve()
        except (BadMessage, ChannelClosed) as error:
            ended.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    front = Front(Channel(ours), cancels=writing)
    yield front
    assert not gone.is_set()
    front.channel.close()
    os.close(writing)
    for _ in range(10):
        engine.gate.release()
    thread.join(WAIT_S)
    for writer in front.inputs:
        writer.close()
    assert len(ended) == 1 and gone.wait(WAIT_S)
    os.close(reading)
    channel.close()


def wait_until(is_true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if is_true():
            return
        pause.wait(0.01)
    raise AssertionError("waited in vain")


def test_second_run_waits_in_the_worker_and_is_run_next(front: Front, engine: GatedEngine) -> None:
    front.ask(1, lane=0)
    front.ask(2, lane=1)
    engine.gate.release()
    wait_until(lambda: engine.started == [1.0, 2.0])
    engine.gate.release()
    replies = [front.hear(), front.hear()]
    assert [(type(reply), reply.id) for reply in replies if isinstance(reply, Answer)] == [(Answer, 1), (Answer, 2)]


def test_run_that_is_cancelled_before_its_turn_never_starts(front: Front, engine: GatedEngine) -> None:
    front.ask(1, lane=0)
    wait_until(lambda: engine.started == [1.0])
    front.ask(2, lane=1)
    for run_id in (2, 1):
        os.write(front.cancels, CANCEL.pack(run_id))
    wait_until(lambda: engine.cancelled == [1.0])
    engine.gate.release()
    first, second = front.hear(), front.hear()
    assert isinstance(first, Answer) and isinstance(second, Failed)
    assert (second.id, second.kind) == (2, "cancelled") and engine.started == [1.0]


def test_lane_is_free_again_once_its_reply_has_come(front: Front, engine: GatedEngine) -> None:
    for run_id in range(1, 6):
        front.ask(run_id, lane=0)
        engine.gate.release()
        reply = front.hear()
        assert isinstance(reply, Answer) and reply.id == run_id


def test_message_that_no_front_sends_breaks_the_protocol(front: Front, ended: list[BaseException]) -> None:
    front.channel.send_frame(pack_message(Answer(id=1, outputs=None, run_ms=1.0)))
    wait_until(lambda: len(ended) == 1)
    assert isinstance(ended[0], BadMessage)
