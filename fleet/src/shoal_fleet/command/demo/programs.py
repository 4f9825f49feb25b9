"""How does the demo start the other programs, and how does none outlive it?

Each is the installed command, in a process of its own with a state folder of its own; the kernel ends it with the demo.
Ctrl-C reaches the demo only, which ends them in order.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from shoal_fleet.command.errors import CommandError, UsageError

_Found = TypeVar("_Found")
_COMMANDS = Path(sys.executable).parent
_GRACE_S = 10.0
_POLL_S = 0.2
_CHECK_S = 1.0
_COMMAND_TIMEOUT_S = 300.0


class Begun(NamedTuple):
    """A command under way."""

    process: subprocess.Popen[str]
    words: str
    """What to call it."""


class Programs:
    """The programs that the demo started. Use as a context manager: leaving it ends them, last started first."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = {**os.environ, **environment}
        self._ending = contextlib.ExitStack()
        self._running: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> "Programs":
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def start(self, name: str, *command: str, reads: bool = False) -> subprocess.Popen[str]:
        """Start a program that runs until the demo ends; its log is `logs/NAME.log`.

        Where the caller `reads`, standard output is a pipe for it instead.
        """
        with self.log(name).open("w") as log:
            process = subprocess.Popen(
                _with_demo(command),
                stdout=subprocess.PIPE if reads else log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                text=True,
                start_new_session=True,
            )
        self._running[name] = process
        self._ending.callback(_end, process)
        return process

    def let_end(self, name: str) -> None:
        """A program is no longer needed: that it ends is no fault from now on."""
        self._running.pop(name)

    def begin(self, *command: str, stdin: str = "", niceness: int = 0) -> Begun:
        """Start a command that ends by itself, while there is something else to do. `stdin` fits into a pipe.

        `niceness`: as of nice(1); one above 0 leaves the processor to the other programs.
        """
        polite = ("nice", "-n", str(niceness)) if niceness else ()
        process = subprocess.Popen(
            _with_demo((*polite, *command)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            text=True,
            start_new_session=True,
        )
        self._ending.callback(_end, process)
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(stdin)
            process.stdin = None
        return Begun(process, " ".join([Path(command[0]).name, *command[1:3]]))

    def result(self, begun: Begun, *, may_fail: bool = False) -> dict[str, Any]:
        """Wait until a command has ended; returns the JSON object on its last line, or an empty one.

        Raises:
            CommandError: it failed, with what it said; or another program ended meanwhile.
        """
        deadline, said = time.monotonic() + _COMMAND_TIMEOUT_S, None
        while said is None:
            try:
                said = begun.process.communicate(timeout=_CHECK_S)
            except subprocess.TimeoutExpired:
                self.check()
                if time.monotonic() > deadline:
                    late = f"`{begun.words} …` hasn't ended within {_COMMAND_TIMEOUT_S:.0f} s"
                    raise CommandError(late) from None
        stdout, stderr = said
        if begun.process.returncode and not may_fail:
            raise CommandError(f"`{begun.words} …` failed: {_last_line(stderr)}")
        lines = [line for line in stdout.splitlines() if line.startswith("{")]
        return msgspec.json.decode(lines[-1], type=dict[str, Any]) if lines else {}

    def run(self, *command: str, stdin: str = "", may_fail: bool = False) -> dict[str, Any]:
        """Run a command to its end. Returns and raises as `result` does."""
        return self.result(self.begin(*command, stdin=stdin), may_fail=may_fail)

    def check(self) -> None:
        """Make sure that all programs still run.

        Raises:
            CommandError: one has ended, with the last line of its log.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                said = _last_line(self.log(name).read_text(errors="replace"))
                raise CommandError(f"the program {name} ended with exit code {process.returncode}: {said}")

    def log(self, name: str) -> Path:
        """Where a program's log is."""
        return self._logs / f"{name}.log"

    def wait_for(self, what: str, look: Callable[[], _Found | None], *, timeout_s: float) -> _Found:
        """The first thing other than None that `look` finds.

        Raises:
            CommandError: it didn't come in time, or a program ended meanwhile.
        """
        found = self.settle(look, is_settled=lambda one: one is not None, timeout_s=timeout_s)
        if found is None:
            raise CommandError(f"{what}: not within {timeout_s:.0f} s")
        return found

    def settle(self, look: Callable[[], _Found], *, is_settled: Callable[[_Found], bool], timeout_s: float) -> _Found:
        """What `look` finds once it is settled, or in the end all the same.

        Raises:
            CommandError: a program ended meanwhile.
        """
        deadline = time.monotonic() + timeout_s
        while not is_settled(found := look()) and time.monotonic() < deadline:
            self.check()
            time.sleep(_POLL_S)
        return found


def command(name: str) -> str:
    """Path of an installed command.

    Raises:
        UsageError: its distribution isn't installed beside this one.
    """
    path = _COMMANDS / name
    if not path.exists():
        raise UsageError(f"{name} is not installed in {_COMMANDS}: the demo needs all members (`make run`)")
    return str(path)


def _with_demo(command: Sequence[str]) -> list[str]:
    return ["setpriv", "--pdeathsig", "TERM", *command]


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
