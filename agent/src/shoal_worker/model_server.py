"""How does a loaded model answer its front?

Two threads: the main thread reads the channel, so that a cancel is heard while the other thread runs the
engine.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from typing import Union

from .channel import BadMessage, Channel, ChannelClosed
from .engines import Engine, Inference
from .errors import BadTensor, EngineFailed, RunCancelled
from .messages import MAX_TEXT, Answer, Buffer, Cancel, Failed, Infer, encode_message, parse_message
from .tensors import TensorReader, TensorWriter


class ModelServer:
    """Serves one engine over one channel, one run at a time."""

    def __init__(self, channel: Channel, *, engine: Engine) -> None:
        self._channel = channel
        self._engine = engine
        self._inputs = TensorReader()
        self._outputs = TensorWriter(channel)
        self._runs: queue.SimpleQueue[tuple[int, Inference]] = queue.SimpleQueue()
        self._current: tuple[int, Inference] | None = None  # the run that has no reply yet

    def serve(self) -> None:
        """Answer until the front closes the channel.

        Raises:
            ChannelClosed: the front is done, or gone.
            BadMessage: the front broke the protocol.
        """
        threading.Thread(target=self._run_all, name="run", daemon=True).start()
        while True:
            message, fds = self._channel.receive(None)
            try:
                self._handle(parse_message(message), fds)
            finally:
                for fd in fds:
                    os.close(fd)

    def _handle(self, message: object, fds: list[int]) -> None:
        if isinstance(message, Infer):
            self._start(message)
        elif isinstance(message, Cancel):
            self._cancel(message)
        elif isinstance(message, Buffer):
            self._inputs.take(fds)
        else:
            raise BadMessage(f"a front sends infer, cancel and buffer; found {type(message).__name__}")

    def _start(self, request: Infer) -> None:
        if self._current is not None:
            raise BadMessage("a front sends one run at a time; found a second before the reply to the first")
        try:
            inference = self._engine.prepare(self._inputs.read(request.inputs))
        except BadTensor as error:
            self._channel.send(encode_message(_failure(request.id, kind="bad_input", error=error)))
            return
        self._current = (request.id, inference)
        self._runs.put(self._current)

    def _cancel(self, request: Cancel) -> None:
        current = self._current
        if current is not None and current[0] == request.id:
            current[1].cancel()

    def _run_all(self) -> None:
        try:
            while True:
                run_id, inference = self._runs.get()
                reply = self._run(run_id, inference)
                self._current = None  # before the reply: the next request may follow it at once
                self._channel.send(encode_message(reply))
        except ChannelClosed:
            pass  # the main thread has seen it too
        finally:
            self._channel.close()  # whatever else it was: a worker that can't run must end

    def _run(self, run_id: int, inference: Inference) -> Union[Answer, Failed]:
        started = time.perf_counter()
        try:
            outputs = inference.run()
            run_ms = (time.perf_counter() - started) * 1000
            return Answer(id=run_id, outputs=self._outputs.write(outputs), run_ms=run_ms)
        except RunCancelled as error:
            return _failure(run_id, kind="cancelled", error=error)
        except (EngineFailed, BadTensor) as error:  # an output may be of a type that can't travel
            return _failure(run_id, kind="engine", error=error)


def _failure(run_id: int, *, kind: str, error: Exception) -> Failed:
    return Failed(id=run_id, kind=kind, reason=str(error)[:MAX_TEXT])
