"""How does a front get answers from a worker?

WorkerError (shoal_worker.errors)
├── EngineMissing, ModelRefused, BadTensor, EngineFailed    what the worker reports
├── DeadlineMissed  the run was stopped in time; the worker is good
└── WorkerLost      the worker is gone (shoal_agent.front.worker_process)
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from shoal_worker.channel import BadMessage, Channel, ChannelClosed, ChannelError, ChannelTimeout
from shoal_worker.engines import check_feeds
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused, WorkerError
from shoal_worker.memory import read_sealed
from shoal_worker.messages import (
    Answer,
    Buffer,
    Cancel,
    Failed,
    Infer,
    Load,
    Loaded,
    Message,
    Refused,
    encode_message,
    parse_message,
)
from shoal_worker.tensors import TensorReader, TensorWriter

from shoal_agent.front import priority
from shoal_agent.front.worker_group import WorkerGroup, make_group
from shoal_agent.front.worker_process import WorkerEnded, WorkerLost, WorkerProcess

LOAD_TIMEOUT_S = 120.0
CANCEL_GRACE_S = 1.0  # engines stop between two operators, within milliseconds

Array = npt.NDArray[Any]

_REFUSALS: dict[str, type[WorkerError]] = {"installation": EngineMissing, "model": ModelRefused}


class DeadlineMissed(WorkerError):
    """A run took longer than it might and was stopped. The worker is good for the next one."""


_FAILURES: dict[str, type[WorkerError]] = {
    "bad_input": BadTensor,
    "engine": EngineFailed,
    "cancelled": DeadlineMissed,
}


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker runs. `threads` is its share of the CPU budget; `nice` is 0 to 19, and only ever grows.

    `precision`, `memory_arena` and `device` are explained in `shoal_worker.messages.Load`. `load_nice` is how niced it
    is until `Worker.hurry`. Below the control group `groups`, where there is one, it gets a group of its own with
    `limit_bytes`.
    """

    threads: int
    nice: int = 0
    precision: str = "exact"
    memory_arena: bool = True
    device: str = ""
    load_nice: int = 0
    groups: Path | None = None
    limit_bytes: int = 0


class Worker:
    """One worker process with one model. Threads may share it: their runs follow one another.

    `plan` is what the engine built from the model for this board, in the clear, where it did.
    """

    def __init__(self, process: WorkerProcess, *, info: Loaded, options: WorkerOptions, plan: bytes | None) -> None:
        """Use `Worker.start`."""
        self.pid = process.pid
        self.info = info
        self.options = options
        self.plan = plan
        self._process = process
        self._channel = process.channel
        self._inputs = TensorWriter(process.channel)
        self._outputs = TensorReader()
        self._run_lock = threading.Lock()
        self._last_id = 0
        self._fate = ""  # why it can't run any more

    @classmethod
    def start(
        cls,
        interpreter: str,
        *,
        engine: str,
        model_fd: int,
        options: WorkerOptions,
        model_format: str = "onnx",
        more_fds: Sequence[int] = (),
        timeout_s: float = LOAD_TIMEOUT_S,
    ) -> Self:
        """Start `interpreter` on the worker program and load the model of a write-sealed memfd (`seal_bytes`) in it.

        A format of several files has the others in `more_fds`. All descriptors stay the caller's. May be called from
        any thread (see `shoal_worker.process`).

        Raises:
            EngineMissing: the interpreter can't be started, or can't import the engine.
            ModelRefused: the engine doesn't take the model.
            WorkerDied: the worker ended while it loaded.
            WorkerHung: it took longer than `timeout_s` and was killed.
        """
        deadline = time.monotonic() + timeout_s
        group = _make_group(options)
        nice = options.nice + options.load_nice
        process = WorkerProcess.start(interpreter, threads=options.threads, nice=nice, group=group)
        channel = process.channel
        request = Load(
            engine=engine,
            format=model_format,
            threads=options.threads,
            precision=options.precision,
            memory_arena=options.memory_arena,
            device=options.device,
        )
        try:
            channel.greet(role="front", timeout_s=timeout_s)
            channel.send(encode_message(request), fds=[model_fd, *more_fds])
            reply, plan = _receive_loaded(channel, deadline=deadline)
            if isinstance(reply, Refused):
                raise _REFUSALS.get(reply.kind, WorkerError)(reply.reason)
            if not isinstance(reply, Loaded):
                raise BadMessage("expected loaded or refused from a worker, found another message")
        except ChannelError as error:
            raise process.lose(error, was_running=False) from error
        except BaseException:
            process.stop()
            raise
        return cls(process, info=reply, options=options, plan=plan)

    @property
    def has_ended(self) -> bool:
        """Whether it can't run any more."""
        return bool(self._fate)

    @property
    def peak_bytes(self) -> int:
        """The most memory that it was seen to hold; `measure` looks."""
        return self._process.peak_bytes

    def hurry(self) -> None:
        """Make it as urgent as this process, where it was niced only while it loaded."""
        if self.options.load_nice:
            priority.restore(self.pid)

    def measure(self) -> int:
        """The memory that it holds now, in bytes; 0 when it has ended."""
        return self._process.measure()

    def is_idle(self) -> bool:
        """Whether nobody waits for an answer at this moment."""
        return not self._run_lock.locked()

    def check(self) -> None:
        """Notice that a worker which runs nothing has ended.

        Raises:
            WorkerDied: it has, and nobody was told yet.
        """
        if self._process.has_ended and self._run_lock.acquire(blocking=False):
            try:
                if not self._fate:
                    raise self._lost(ChannelClosed("it has ended"), was_running=False)
            finally:
                self._run_lock.release()

    def run(self, feeds: Mapping[str, Array], *, deadline_s: float) -> dict[str, Array]:
        """Run the model. Inputs are copied in, and the outputs are the caller's own.

        The deadline counts from when the worker is free. An answer that comes while the run is being cancelled is
        returned all the same.

        Raises:
            BadTensor: the inputs don't fit the model's signature.
            EngineFailed: the engine reported an error.
            DeadlineMissed: the run was stopped after `deadline_s`.
            WorkerDied, WorkerHung: the worker is gone. One caller is told so; to all others it is WorkerEnded.
        """
        arrays = {name: np.asarray(array) for name, array in feeds.items()}
        check_feeds(arrays, inputs=self.info.inputs)  # here too: feeds beyond what a message holds end a worker
        with self._run_lock:
            if self._fate:
                raise WorkerEnded(self._fate)
            if self._process.has_ended:
                raise self._lost(ChannelClosed("it has ended"), was_running=False)
            try:
                reply = self._ask(arrays, deadline_s=deadline_s)
                if isinstance(reply, Answer):
                    return {name: view.copy() for name, view in self._outputs.read(reply.outputs).items()}
            except ChannelError as error:
                raise self._lost(error, was_running=True) from error
            except WorkerError:
                raise
            except BaseException:
                self._give_back()  # interrupted: a reply that nobody waits for would be taken for the next one
                raise
        raise _FAILURES.get(reply.kind, EngineFailed)(reply.reason)

    def close(self, *, drain_s: float = 5.0) -> None:
        """Let a run in progress end, for `drain_s` at most, and end the worker. May be called twice."""
        if not self._run_lock.acquire(timeout=drain_s):
            self._fate = f"worker {self.pid} was closed"
            self._process.stop()  # which ends the run, with WorkerEnded
            self._run_lock.acquire()
        try:
            self._give_back()
        finally:
            self._run_lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, arrays: Mapping[str, Array], *, deadline_s: float) -> Answer | Failed:
        self._last_id += 1
        deadline = time.monotonic() + deadline_s
        self._channel.send(encode_message(Infer(id=self._last_id, inputs=self._inputs.write(arrays))))
        try:
            reply = _receive(self._channel, deadline=deadline, outputs=self._outputs)
        except ChannelTimeout:
            self._channel.send(encode_message(Cancel(id=self._last_id)))
            grace = time.monotonic() + CANCEL_GRACE_S
            reply = _receive(self._channel, deadline=grace, outputs=self._outputs)
        if not isinstance(reply, Answer | Failed) or reply.id != self._last_id:
            raise BadMessage("expected the reply to this run from the worker, found another message")
        return reply

    def _lost(self, error: ChannelError, *, was_running: bool) -> WorkerLost:
        self._release_memory()
        loss = self._process.lose(error, was_running=was_running)
        if self._fate:
            return WorkerEnded(self._fate)
        self._fate = str(loss)
        return loss

    def _give_back(self) -> None:
        self._fate = self._fate or f"worker {self.pid} was closed"
        self._release_memory()
        self._process.stop()

    def _release_memory(self) -> None:
        self._inputs.close()
        self._outputs.close()


def _make_group(options: WorkerOptions) -> WorkerGroup | None:
    if options.groups is None:
        return None
    try:
        return make_group(options.groups, limit_bytes=options.limit_bytes)
    except OSError as error:
        raise WorkerError(f"no control group for a worker can be made in {options.groups}: {error}") from error


def _receive_loaded(channel: Channel, *, deadline: float) -> tuple[Message, bytes | None]:
    """The reply to a load, and the plan that came with it."""
    message, fds = channel.receive(max(0.0, deadline - time.monotonic()))
    try:
        return parse_message(message), read_sealed(fds[0]) if fds else None
    finally:
        for fd in fds:
            os.close(fd)


def _receive(channel: Channel, *, deadline: float, outputs: TensorReader) -> Message:
    """The next message that isn't about memory. Memory goes to `outputs`."""
    while True:
        message, fds = channel.receive(max(0.0, deadline - time.monotonic()))
        try:
            parsed = parse_message(message)
            if not isinstance(parsed, Buffer):
                return parsed
            outputs.take(fds)
        finally:
            for fd in fds:
                os.close(fd)
