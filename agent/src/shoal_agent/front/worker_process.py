"""How does a worker's process start, and how did it end?

WorkerError (shoal_worker.errors)
└── WorkerLost      the worker is gone: start another one
    ├── WorkerDied      it ended by itself, or was killed by somebody else
    ├── WorkerHung      it didn't answer and was killed
    └── WorkerEnded     it had ended before, as somebody else was told, or was closed: nobody's fault
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import BinaryIO, Self

import shoal_worker
from shoal_worker.channel import Channel, ChannelClosed, ChannelError, ChannelTimeout
from shoal_worker.errors import EngineMissing, WorkerError
from shoal_worker.messages import CANCEL
from shoal_worker.process import start_child

from shoal_agent.front.admission import megabytes
from shoal_agent.front.board_memory import count_memory_kills, peak_bytes, resident_bytes
from shoal_agent.front.worker_group import WorkerGroup
from shoal_agent.swap import needs_lock

WORKER_PROGRAM = Path(shoal_worker.__file__).with_name("__main__.py")
PASSED_ON = ("PATH", "LD_LIBRARY_PATH")  # of our own environment; a Jetson's engines need the second
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
EXIT_GRACE_S = 1.0
OOM_POINTS = 200
"""By how much sooner than its front a worker is killed when memory runs short; the scale has 1,000."""


class WorkerLost(WorkerError):
    """The worker is gone, and everything that it held is given back.

    `was_running`: it ended in the middle of a run, so what was run is a suspect. `peak_bytes`: the most memory that it
    was seen to hold.
    """

    def __init__(self, message: str, *, was_running: bool, peak_bytes: int) -> None:
        super().__init__(message)
        self.was_running = was_running
        self.peak_bytes = peak_bytes


class WorkerDied(WorkerLost):
    """The worker's process ended. `exit_code` is negative for the number of a signal, as in `subprocess`."""

    def __init__(self, message: str, *, was_running: bool, peak_bytes: int, exit_code: int) -> None:
        super().__init__(message, was_running=was_running, peak_bytes=peak_bytes)
        self.exit_code = exit_code


class WorkerHung(WorkerLost):
    """The worker answered neither its request nor the cancel in time, and was killed."""


class WorkerEnded(WorkerLost):
    """The worker was closed, or its end was reported before."""

    def __init__(self, message: str) -> None:
        super().__init__(message, was_running=False, peak_bytes=0)


class WorkerProcess:
    """The process of one worker, with the front's end of its channel."""

    def __init__(
        self, process: subprocess.Popen[bytes], *, channel: Channel, cancels: BinaryIO, group: WorkerGroup | None
    ) -> None:
        """Use `start`."""
        self.pid = process.pid
        self.channel = channel
        self._cancels = cancels
        self.peak_bytes = 0
        """The most memory that it was seen to hold."""
        self._process = process
        self._group = group
        self._kills_before = count_memory_kills()

    @classmethod
    def start(cls, interpreter: str, *, threads: int, nice: int, group: WorkerGroup | None) -> Self:
        """Start `interpreter` on the worker program, in `group`, which goes with it.

        Raises:
            EngineMissing: the interpreter can't be started.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        cancels_out, cancels_in = os.pipe()
        # -I: neither PYTHON* variables nor a user's own packages decide what a worker imports.
        command = [interpreter, "-I", str(WORKER_PROGRAM), "--fd", str(theirs.fileno()), "--parent", str(os.getpid())]
        command += ["--cancel-fd", str(cancels_out), "--nice", str(nice), "--oom-points", str(OOM_POINTS)]
        if needs_lock():
            command.append("--lock-memory")
        try:
            process = start_child(command, fds=[theirs.fileno(), cancels_out], environment=_environment(threads))
        except BaseException as error:
            ours.close()
            os.close(cancels_in)
            if group is not None:
                group.remove()
            if isinstance(error, OSError):
                raise EngineMissing(f"interpreter {interpreter} can't be started: {error.strerror}") from error
            raise
        finally:
            theirs.close()
            os.close(cancels_out)
        cancels = os.fdopen(cancels_in, "wb", buffering=0)
        started = cls(process, channel=Channel(ours), cancels=cancels, group=group)
        if group is not None:
            try:
                group.put(process.pid)
            except OSError as error:
                started.stop()
                raise WorkerError(f"worker {process.pid} can't be put into its control group: {error}") from error
        return started

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def cancel(self, run_id: int) -> None:
        """Ask it to stop a run. What becomes of it is heard on the channel."""
        with contextlib.suppress(OSError, ValueError):  # it is gone, or is being stopped
            self._cancels.write(CANCEL.pack(run_id))

    def measure(self) -> int:
        """The memory that it holds now, in bytes; 0 when it has ended."""
        self.peak_bytes = max(self.peak_bytes, peak_bytes(self.pid))
        return resident_bytes(self.pid)

    def lose(self, error: ChannelError, *, was_running: bool) -> WorkerLost:
        """Make sure that a worker which can't go on is gone, and say how it went."""
        self.measure()
        seen = f"worker {self.pid}" + (f" (at most {megabytes(self.peak_bytes)})" if self.peak_bytes else "")
        loss: WorkerLost
        if isinstance(error, ChannelClosed) and self._wait():
            code = self._process.returncode
            loss = WorkerDied(
                f"{seen} {self._cause(code)}", was_running=was_running, peak_bytes=self.peak_bytes, exit_code=code
            )
        elif isinstance(error, ChannelTimeout):
            loss = WorkerHung(
                f"{seen} didn't answer in time, nor to a cancel, and was killed",
                was_running=was_running,
                peak_bytes=self.peak_bytes,
            )
        else:
            loss = WorkerDied(
                f"{seen} was killed: {error}",
                was_running=was_running,
                peak_bytes=self.peak_bytes,
                exit_code=-signal.SIGKILL,
            )
        self._kill()
        self._leave_group()
        return loss

    def stop(self) -> None:
        """End the worker by the end of its channel, or by force."""
        self._hang_up()
        if not self._wait():
            self._kill()
        self._leave_group()

    def _wait(self) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_GRACE_S)
        return self._process.returncode is not None

    def _hang_up(self) -> None:
        self.channel.close()
        self._cancels.close()

    def _kill(self) -> None:
        self._hang_up()
        self._process.kill()
        self._process.wait()

    def _cause(self, code: int) -> str:
        if code >= 0:
            return f"ended with exit code {code}"
        cause = f"was killed by signal {-code} ({signal.strsignal(-code)})"
        if code == -signal.SIGKILL and self._memory_was_short():
            cause += " for want of memory"
        return cause

    def _memory_was_short(self) -> bool:
        """Whether the kernel killed for memory: in the worker's own group, or anywhere while the worker was there."""
        if self._group is not None and self._group.memory_kills():
            return True
        return count_memory_kills() > self._kills_before

    def _leave_group(self) -> None:
        if self._group is not None:
            self._group.remove()


def _environment(threads: int) -> dict[str, str]:
    """All that a worker sees of the environment: no paths for Python, no secrets, no thread pool beyond its share."""
    environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    environment |= {name: str(threads) for name in THREAD_VARIABLES}
    return environment | {"LC_ALL": "C.UTF-8", "OMP_WAIT_POLICY": "PASSIVE"}
