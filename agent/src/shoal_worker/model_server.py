"""How does a loaded model answer its front?

The main thread reads a request, runs the engine and replies, with no change of threads in between. Cancels come by a
pipe of their own, to a thread that sleeps as long as there are none.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from .channel import BadMessage, Channel
from .engines import Engine, Inference
from .errors import BadTensor, EngineFailed, RunCancelled
from .messages import (
    CANCEL,
    LANES,
    MAX_TEXT,
    Answer,
    Buffer,
    Failed,
    Infer,
    Message,
    pack_message,
    unpack_message,
)
from .tensors import TensorReader, TensorWriter


class ModelServer:
    """Serves one engine over one channel, one run at a time."""

    def __init__(self, channel: Channel, *, engine: Engine, cancels: int, on_gone: Callable[[], None]) -> None:
        """`cancels` is the reading end of the pipe; `on_gone` is called when its other end is closed, from any thread.

        The engine may be in the middle of a run then that nobody wants any more.
        """
        self._channel = channel
        self._engine = engine
        self._cancels = cancels
        self._on_gone = on_gone
        self._inputs = [TensorReader() for _ in range(LANES)]
        self._outputs = [TensorWriter(channel, lane=lane) for lane in range(LANES)]
        self._lock = threading.Lock()  # for what follows
        self._current: tuple[int, Inference] | None = None
        self._cancelled: set[int] = set()  # runs that were, of those that aren't over

    def serve(self) -> None:
        """Answer until the front closes the channel.

        Raises:
            ChannelClosed: the front is done, or gone.
            BadMessage: the front broke the protocol.
        """
        threading.Thread(target=self._hear_cancels, name="cancels", daemon=True).start()
        while True:
            body, fds = self._channel.receive_frame(None)
            try:
                reply = self._handle(unpack_message(body), fds)
            finally:
                for fd in fds:
                    os.close(fd)
            if reply is not None:
                self._channel.send_frame(pack_message(reply))

    def _handle(self, message: Message, fds: list[int]) -> Answer | Failed | None:
        if isinstance(message, Infer):
            return self._run(message)
        if isinstance(message, Buffer):
            self._inputs[message.lane].take(fds)
            return None
        raise BadMessage(f"a front sends infer and buffer; found {type(message).__name__}")

    def _run(self, request: Infer) -> Answer | Failed:
        feeds = self._inputs[request.lane].read(request.inputs)
        try:
            inference = self._engine.prepare(feeds)
        except BadTensor as error:
            return _failure(request.id, kind="bad_input", error=error)
        with self._lock:
            self._current = (request.id, inference)
            if request.id in self._cancelled:
                inference.cancel()
        started = time.perf_counter()
        try:
            outputs = inference.run()
            run_ms = (time.perf_counter() - started) * 1000
            return Answer(id=request.id, outputs=self._outputs[request.lane].write(outputs), run_ms=run_ms)
        except RunCancelled as error:
            return _failure(request.id, kind="cancelled", error=error)
        except (EngineFailed, BadTensor) as error:  # an output may be of a type that can't travel
            return _failure(request.id, kind="engine", error=error)
        finally:
            with self._lock:
                self._current = None
                if self._cancelled:
                    self._cancelled = {run_id for run_id in self._cancelled if run_id > request.id}

    def _hear_cancels(self) -> None:
        while len(raw := os.read(self._cancels, CANCEL.size)) == CANCEL.size:
            (run_id,) = CANCEL.unpack(raw)
            with self._lock:
                self._cancelled.add(run_id)
                if self._current is not None and self._current[0] == run_id:
                    self._current[1].cancel()
        self._on_gone()


def _failure(run_id: int, *, kind: str, error: Exception) -> Failed:
    return Failed(id=run_id, kind=kind, reason=str(error)[:MAX_TEXT])
