"""How does a front get answers from a worker?

WorkerError (shoal_worker.errors)
├── EngineMissing, ModelRefused, BadTensor, EngineFailed    what the worker reports
├── DeadlineMissed  the run was stopped in time; the worker is good
└── WorkerLost      the worker is gone (shoal_agent.front.worker_process)
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from shoal_wire.tuning import is_placed_on
from shoal_worker.channel import BadMessage, Channel, ChannelClosed, ChannelError, ChannelTimeout
from shoal_worker.engines import check_feeds
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused, WorkerError
from shoal_worker.memory import linked, read_sealed
from shoal_worker.messages import (
    MODEL_FD,
    Answer,
    Buffer,
    Failed,
    Infer,
    Load,
    Loaded,
    Message,
    Refused,
    encode_message,
    pack_message,
    parse_message,
    unpack_message,
)

from shoal_agent.engine_table import PATH_ENDINGS
from shoal_agent.front import priority
from shoal_agent.front.bindings import AS_IT_IS, Bindings
from shoal_agent.front.run_line import Lane, RunLine
from shoal_agent.front.worker_group import WorkerGroup, make_group
from shoal_agent.front.worker_process import WorkerEnded, WorkerLost, WorkerProcess

LOAD_TIMEOUT_S = 120.0
IDLE_LOAD_S = 10.0
"""A board whose processors are all busy gives no idle time: it would never load."""
CANCEL_GRACE_S = 1.0  # engines stop between two operators, within milliseconds

Array = npt.NDArray[Any]

_REFUSALS: dict[str, type[WorkerError]] = {"installation": EngineMissing, "model": ModelRefused}


class Ran(NamedTuple):
    """The outputs of one run, and the seconds for which it waited for other runs."""

    outputs: dict[str, Array]
    waited_s: float


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

    `precision`, `memory_arena` and `device` are explained in `shoal_worker.messages.Load`. With `load_nice` above 0 the
    worker loads in time that nobody else wants, for IDLE_LOAD_S at most, and is niced by so much until `Worker.hurry`.
    Below the control group `groups`, where there is one, it gets a group of its own with `limit_bytes`.
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
    """One worker process with one model. Threads may share it: their runs follow one another, without a pause where a
    second one is asked for before the first has ended.

    `plan` is what the engine built from the model for this board, in the clear, where it did.
    """

    def __init__(
        self,
        process: WorkerProcess,
        *,
        info: Loaded,
        options: WorkerOptions,
        bindings: Bindings,
        plan: bytes | None,
    ) -> None:
        """Use `Worker.start`."""
        self.pid = process.pid
        self.info = info
        self.options = options
        self.plan = plan
        self._bindings = bindings
        self._process = process
        self._channel = process.channel
        self._line = RunLine(process.channel, pid=process.pid)
        self._sending = threading.Lock()

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
        bindings: Bindings = AS_IT_IS,
        timeout_s: float = LOAD_TIMEOUT_S,
    ) -> Self:
        """Start `interpreter` on the worker program and load the model of a write-sealed memfd (`seal_bytes`) in it.

        A format of several files has the others in `more_fds`. All descriptors stay the caller's. Runs take and give
        the tensors of the model's signature, from which the file's differ as `bindings` say. May be called from any
        thread (see `shoal_worker.process`).

        Raises:
            EngineMissing: the interpreter can't be started, or can't import the engine, or the engine runs the model
                on another device than was asked for.
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
        ending = PATH_ENDINGS.get((engine, model_format))
        is_niced = bool(options.load_nice)
        try:
            with priority.idle_time(process.pid, at_most_s=IDLE_LOAD_S) if is_niced else contextlib.nullcontext():
                channel.greet(role="front", timeout_s=timeout_s)
                with linked(MODEL_FD, ending=ending) if ending else contextlib.nullcontext("") as path:
                    channel.send(encode_message(replace(request, path=path)), fds=[model_fd, *more_fds])
                    reply, plan = _receive_loaded(channel, deadline=deadline)
            if isinstance(reply, Refused):
                raise _REFUSALS.get(reply.kind, WorkerError)(reply.reason)
            if not isinstance(reply, Loaded):
                raise BadMessage("expected loaded or refused from a worker, found another message")
            if not is_placed_on(options.device, placement=reply.placement):
                found = ", ".join(reply.placement) or "nowhere that it tells"
                raise EngineMissing(f"engine {engine} was asked for {options.device} and runs on {found}")
        except ChannelError as error:
            raise process.lose(error, was_running=False) from error
        except BaseException:
            process.stop()
            raise
        return cls(process, info=reply, options=options, bindings=bindings, plan=plan)

    @property
    def has_ended(self) -> bool:
        """Whether it can't run any more."""
        return bool(self._line.fate)

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
        return self._line.is_idle()

    def check(self) -> None:
        """Notice that a worker which runs nothing has ended.

        Raises:
            WorkerDied: it has, and nobody was told yet.
        """
        if self._process.has_ended and self._line.is_idle() and not self._line.fate:
            loss = self._lost(ChannelClosed("it has ended"), was_running=False)
            if not isinstance(loss, WorkerEnded):
                raise loss

    def run(self, feeds: Mapping[str, Array], *, deadline_s: float) -> dict[str, Array]:
        """The outputs of `run_in_turn`, which raises the same."""
        return self.run_in_turn(feeds, deadline_s=deadline_s).outputs

    def run_in_turn(self, feeds: Mapping[str, Array], *, deadline_s: float) -> Ran:
        """Run the model. Inputs are copied in, and the outputs are the caller's own.

        The deadline counts from when the worker is free. An answer that comes while the run is being cancelled is
        returned all the same.

        Raises:
            BadTensor: the inputs or outputs don't fit the model's signature.
            EngineFailed: the engine reported an error.
            DeadlineMissed: the run was stopped after `deadline_s`.
            WorkerDied, WorkerHung: the worker is gone. One caller is told so; to all others it is WorkerEnded.
        """
        arrays = self._bindings.to_file({name: np.asarray(array) for name, array in feeds.items()})
        check_feeds(arrays, inputs=self.info.inputs)  # here too: feeds beyond what a message holds end a worker
        asked = time.monotonic()
        lane = self._line.take_lane()
        waited_s = time.monotonic() - asked
        try:
            reply, views, in_line_s = self._run(lane, arrays, deadline_s=deadline_s)
            if isinstance(reply, Answer):
                return Ran(self._bindings.from_file(views), waited_s=waited_s + in_line_s)
        finally:
            views = {}  # they would keep the memory
            self._line.give_lane(lane)
        raise _FAILURES.get(reply.kind, EngineFailed)(reply.reason)

    def close(self, *, drain_s: float = 5.0) -> None:
        """Let runs in progress end, for `drain_s` at most, and end the worker. May be called twice."""
        if not self._line.close(drain_s=drain_s):
            self._line.end(f"worker {self.pid} was closed")
            self._process.stop()  # which ends the runs, with WorkerEnded
            self._line.close(drain_s=None)
        self._give_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(
        self, lane: Lane, arrays: Mapping[str, Array], *, deadline_s: float
    ) -> tuple[Answer | Failed, Mapping[str, Array], float]:
        """The reply, views of the outputs in the lane, and the seconds for which other runs were in the way."""
        run_id, is_sent = 0, False
        try:
            with self._sending:
                run_id = self._line.join()
                inputs = lane.inputs.write(arrays)
                self._channel.send_frame(pack_message(Infer(id=run_id, lane=lane.number, inputs=inputs)))
                is_sent = True
            sent = time.monotonic()
            self._line.await_turn(run_id)
            began = time.monotonic()
            reply = self._hear(run_id, deadline=began + deadline_s)
            views = lane.outputs.read(reply.outputs) if isinstance(reply, Answer) else {}
            return reply, views, began - sent
        except ChannelError as error:
            self._line.await_turn(run_id)  # whose turn it is says what has become of the worker
            raise self._lost(error, was_running=is_sent) from error
        except WorkerError:
            raise
        except BaseException:
            self._give_back()  # interrupted: a reply that nobody waits for would be taken for the next one
            raise
        finally:
            self._line.leave(run_id)

    def _hear(self, run_id: int, *, deadline: float) -> Answer | Failed:
        try:
            reply = _receive(self._channel, deadline=deadline, lanes=self._line.lanes)
        except ChannelTimeout:
            self._process.cancel(run_id)
            grace = time.monotonic() + CANCEL_GRACE_S
            reply = _receive(self._channel, deadline=grace, lanes=self._line.lanes)
        if not isinstance(reply, Answer | Failed) or reply.id != run_id:
            raise BadMessage("expected the reply to this run from the worker, found another message")
        return reply

    def _lost(self, error: ChannelError, *, was_running: bool) -> WorkerLost:
        loss = self._process.lose(error, was_running=was_running)
        return loss if self._line.end(str(loss)) else WorkerEnded(self._line.fate)

    def _give_back(self) -> None:
        self._line.end(f"worker {self.pid} was closed")
        self._process.stop()


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


def _receive(channel: Channel, *, deadline: float, lanes: Sequence[Lane]) -> Message:
    """The next message that isn't about memory. Memory goes to its lane."""
    while True:
        body, fds = channel.receive_frame(max(0.0, deadline - time.monotonic()))
        try:
            parsed = unpack_message(body)
            if not isinstance(parsed, Buffer):
                return parsed
            lanes[parsed.lane].outputs.take(fds)
        finally:
            for fd in fds:
                os.close(fd)
