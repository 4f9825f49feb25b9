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
from typing import Any, TypeVar

import msgspec

from shoal_fleet.command.errors import CommandError, UsageError

_Found = TypeVar("_Found")
_COMMANDS = Path(sys.executable).parent
_GRACE_S = 10.0
_POLL_S = 0.2

_COMMAND_TIMEOUT_S = 300.0


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
        if not reads:
            self._running[name] = process
        self._ending.callback(_end, process)
        return process

    def run(self, *command: str, stdin: str = "", may_fail: bool = False) -> dict[str, Any]:
        """Run a command to its end; returns the JSON object on its last line, or an empty one.

        Raises:
            CommandError: it failed, with what it said.
        """
        words = " ".join([Path(command[0]).name, *command[1:3]])
        try:
            done = subprocess.run(
                _with_demo(command),
                input=stdin,
                capture_output=True,
                env=self._environment,
                text=True,
                check=False,
                start_new_session=True,
                timeout=_COMMAND_TIMEOUT_S,
            )
        except subprocess.TimeoutExpired:
            raise CommandError(f"`{words} …` hasn't ended within {_COMMAND_TIMEOUT_S:.0f} s") from None
        if done.returncode and not may_fail:
            raise CommandError(f"`{words} …` failed: {_last_line(done.stderr)}")
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        return msgspec.json.decode(lines[-1], type=dict[str, Any]) if lines else {}

    def check(self) -> None:
        """Make sure that all still run whose output isn't read: of the others the reader notices.

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
        deadline = time.monotonic() + timeout_s
        while (found := look()) is None:
            self.check()
            if time.monotonic() > deadline:
                raise CommandError(f"{what}: not within {timeout_s:.0f} s")
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
    if process.stdout is not None:
        process.stdout.close()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
