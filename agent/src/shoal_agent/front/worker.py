"""How does a front start a worker, get answers from it, and get rid of it?

WorkerError (shoal_worker.errors)
├── EngineMissing, ModelRefused, BadTensor, EngineFailed    what the worker reports
├── DeadlineMissed  the run was stopped in time; the worker is good
└── WorkerLost      the worker is gone: start another one
    ├── WorkerDied      it ended by itself, or was killed by somebody else
    └── WorkerHung      it didn't answer and was killed
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import shoal_worker
from shoal_worker.channel import BadMessage, Channel, ChannelClosed, ChannelError, ChannelTimeout
from shoal_worker.engines import check_feeds
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused, WorkerError
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
from shoal_worker.process import start_child
from shoal_worker.tensors import TensorReader, TensorWriter

WORKER_PROGRAM = Path(shoal_worker.__file__).with_name("__main__.py")
PASSED_ON = ("PATH", "LD_LIBRARY_PATH")  # of our own environment; a Jetson's engines need the second
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LOAD_TIMEOUT_S = 120.0
CANCEL_GRACE_S = 1.0  # engines stop between two operators, within milliseconds
EXIT_GRACE_S = 1.0

Array = npt.NDArray[Any]

_REFUSALS: dict[str, type[WorkerError]] = {"installation": EngineMissing, "model": ModelRefused}


class DeadlineMissed(WorkerError):
    """A run took longer than it might and was stopped. The worker is good for the next one."""


class WorkerLost(WorkerError):
    """The worker is gone, and everything that it held is given back."""


class WorkerDied(WorkerLost):
    """The worker's process ended. `exit_code` is negative for the number of a signal, as in `subprocess`."""

    def __init__(self, message: str, *, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class WorkerHung(WorkerLost):
    """The worker answered neither its request nor the cancel in time, and was killed."""


_FAILURES: dict[str, type[WorkerError]] = {
    "bad_input": BadTensor,
    "engine": EngineFailed,
    "cancelled": DeadlineMissed,
}


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker runs. `threads` is its share of the CPU budget; `nice` is 0 to 19, and only ever grows.

    `precision` and `memory_arena` are explained in `shoal_worker.messages.Load`.
    """

    threads: int
    nice: int = 0
    precision: str = "exact"
    memory_arena: bool = True


class Worker:
    """One worker process with one model. Threads may share it: their runs follow one another."""

    def __init__(self, process: subprocess.Popen[bytes], *, channel: Channel, info: Loaded) -> None:
        """Use `Worker.start`."""
        self.pid = process.pid
        self.info = info
        self._process = process
        self._channel = channel
        self._inputs = TensorWriter(channel)
        self._outputs = TensorReader()
        self._run_lock = threading.Lock()
        self._last_id = 0

    @classmethod
    def start(
        cls,
        interpreter: str,
        *,
        engine: str,
        model_fd: int,
        options: WorkerOptions,
        model_format: str = "onnx",
        timeout_s: float = LOAD_TIMEOUT_S,
    ) -> Self:
        """Start `interpreter` on the worker program and load the model of a write-sealed memfd (`seal_bytes`) in it.

        `model_fd` stays the caller's. May be called from any thread (see `shoal_worker.process`).

        Raises:
            EngineMissing: the interpreter can't be started, or can't import the engine.
            ModelRefused: the engine doesn't take the model.
            WorkerDied: the worker ended while it loaded.
            WorkerHung: it took longer than `timeout_s` and was killed.
        """
        deadline = time.monotonic() + timeout_s
        process, channel = _spawn(interpreter, options)
        request = Load(
            engine=engine,
            format=model_format,
            threads=options.threads,
            precision=options.precision,
            memory_arena=options.memory_arena,
        )
        try:
            channel.greet(role="front", timeout_s=timeout_s)
            channel.send(encode_message(request), fds=[model_fd])
            reply = _receive(channel, deadline=deadline, outputs=None)
            if isinstance(reply, Refused):
                raise _REFUSALS.get(reply.kind, WorkerError)(reply.reason)
            if not isinstance(reply, Loaded):
                raise BadMessage("expected loaded or refused from a worker, found another message")
        except ChannelError as error:
            raise _end(process, channel=channel, error=error) from error
        except BaseException:
            _stop(process, channel=channel)
            raise
        return cls(process, channel=channel, info=reply)

    def run(self, feeds: Mapping[str, Array], *, deadline_s: float) -> dict[str, Array]:
        """Run the model. Inputs are copied in, and the outputs are the caller's own.

        The deadline counts from when the worker is free. An answer that comes while the run is being cancelled is
        returned all the same.

        Raises:
            BadTensor: the inputs don't fit the model's signature.
            EngineFailed: the engine reported an error.
            DeadlineMissed: the run was stopped after `deadline_s`.
            WorkerDied, WorkerHung: the worker is gone.
        """
        arrays = {name: np.asarray(array) for name, array in feeds.items()}
        check_feeds(arrays, inputs=self.info.inputs)  # here too: feeds beyond what a message holds end a worker
        with self._run_lock:
            try:
                reply = self._ask(arrays, deadline_s=deadline_s)
                if isinstance(reply, Answer):
                    return {name: view.copy() for name, view in self._outputs.read(reply.outputs).items()}
            except ChannelError as error:
                raise self._lost(error) from error
            except WorkerError:
                raise
            except BaseException:
                self._give_back()  # interrupted: a reply that nobody waits for would be taken for the next one
                raise
        raise _FAILURES.get(reply.kind, EngineFailed)(reply.reason)

    def close(self, *, drain_s: float = 5.0) -> None:
        """Let a run in progress end, for `drain_s` at most, and end the worker. May be called twice."""
        if not self._run_lock.acquire(timeout=drain_s):
            _stop(self._process, channel=self._channel)  # which ends the run, with WorkerDied
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

    def _lost(self, error: ChannelError) -> WorkerLost:
        self._release_memory()
        return _end(self._process, channel=self._channel, error=error)

    def _give_back(self) -> None:
        self._release_memory()
        _stop(self._process, channel=self._channel)

    def _release_memory(self) -> None:
        self._inputs.close()
        self._outputs.close()


def _spawn(interpreter: str, options: WorkerOptions) -> tuple[subprocess.Popen[bytes], Channel]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    # -I: neither PYTHON* variables nor a user's own packages decide what a worker imports.
    command = [interpreter, "-I", str(WORKER_PROGRAM), "--fd", str(theirs.fileno()), "--parent", str(os.getpid())]
    command += ["--nice", str(options.nice)]
    with theirs:
        try:
            process = start_child(command, fds=[theirs.fileno()], environment=_environment(options.threads))
        except OSError as error:
            ours.close()
            raise EngineMissing(f"interpreter {interpreter} can't be started: {error.strerror}") from error
        except BaseException:
            ours.close()
            raise
    return process, Channel(ours)


def _environment(threads: int) -> dict[str, str]:
    """All that a worker sees of the environment: no paths for Python, no secrets, no thread pool beyond its share."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {name: str(threads) for name in THREAD_VARIABLES}
    return environment | {"LC_ALL": "C.UTF-8", "OMP_WAIT_POLICY": "PASSIVE"}


def _receive(channel: Channel, *, deadline: float, outputs: TensorReader | None) -> Message:
    """The next message that isn't about memory. Memory goes to `outputs`; before a model is loaded there is none."""
    while True:
        message, fds = channel.receive(max(0.0, deadline - time.monotonic()))
        try:
            parsed = parse_message(message)
            if not isinstance(parsed, Buffer) or outputs is None:
                return parsed
            outputs.take(fds)
        finally:
            for fd in fds:
                os.close(fd)


def _end(process: subprocess.Popen[bytes], *, channel: Channel, error: ChannelError) -> WorkerLost:
    """Make sure that a worker which can't go on is gone, and say how it went."""
    channel.close()
    if isinstance(error, ChannelClosed):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(EXIT_GRACE_S)
            return _death(process)
    process.kill()
    process.wait()
    if isinstance(error, ChannelTimeout):
        return WorkerHung(f"worker {process.pid} didn't answer in time, nor to a cancel, and was killed")
    return WorkerDied(f"worker {process.pid} was killed: {error}", exit_code=process.returncode)


def _death(process: subprocess.Popen[bytes]) -> WorkerDied:
    code = process.returncode
    cause = f"was killed by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"ended with exit code {code}"
    return WorkerDied(f"worker {process.pid} {cause}", exit_code=code)


def _stop(process: subprocess.Popen[bytes], *, channel: Channel) -> None:
    """End a worker by the end of its channel, or by force."""
    channel.close()
    try:
        process.wait(EXIT_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
