"""How does the demo start the other programs, and how does none outlive it?

Each is the installed command, in a process of its own with a state folder of its own; the kernel ends it with the demo.
Ctrl-C reaches the demo only, which ends them in order.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from shoal_fleet.command.errors import CommandError, UsageError

_Found = TypeVar("_Found")
_COMMANDS = Path(sys.executable).parent


class Programs:
    """The programs that the demo started. Use as a context manager: leaving it ends them, last started first."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._logs = folder / "logs"
        self._environment = {**os.environ, **environment}
        self._running = contextlib.ExitStack()

    def __enter__(self) -> "Programs":
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def start(self, name: str, *command: str) -> subprocess.Popen[str]:
        """Start a program that runs until the demo ends; its log is `logs/NAME.log`."""
        with self.log(name).open("w") as log:
            process = subprocess.Popen(
                _with_demo(command),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                text=True,
                start_new_session=True,
            )
        self._running.callback(_end, process)
        return process

    def start_reading(self, name: str, *command: str) -> subprocess.Popen[str]:
        """Like `start`, with its standard output for the caller to read."""
        with self.log(name).open("w") as log:
            process = subprocess.Popen(
                _with_demo(command),
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                text=True,
                start_new_session=True,
            )
        self._running.callback(_end, process)
        return process

    def run(self, *command: str, stdin: str = "", may_fail: bool = False) -> dict[str, Any]:
        """Run a command to its end; returns the JSON object on its last line, or an empty one.

        Raises:
            CommandError: it failed, with what it said.
        """
        done = subprocess.run(
            _with_demo(command),
            input=stdin,
            capture_output=True,
            env=self._environment,
            text=True,
            check=False,
        )
        if done.returncode and not may_fail:
            raise CommandError(f"`{' '.join(command[:3])} …` failed: {_last_line(done.stderr)}")
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        result: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return result

    def log(self, name: str) -> Path:
        """Where a program's log is."""
        return self._logs / f"{name}.log"


def command(name: str) -> str:
    """Path of an installed command.

    Raises:
        UsageError: its distribution isn't installed beside this one.
    """
    path = _COMMANDS / name
    if not path.exists():
        raise UsageError(f"{name} is not installed in {_COMMANDS}: the demo needs all members (`make run`)")
    return str(path)


def wait_for(what: str, look: Callable[[], _Found | None], *, timeout_s: float) -> _Found:
    """The first thing other than None that `look` finds.

    Raises:
        CommandError: it didn't come in time.
    """
    for _ in _until(time.monotonic() + timeout_s):
        found = look()
        if found is not None:
            return found
    raise CommandError(f"{what}: not within {timeout_s:.0f} s")


def _until(deadline: float) -> Iterator[None]:
    while time.monotonic() < deadline:
        yield
        time.sleep(0.2)


def _with_demo(command: Sequence[str]) -> list[str]:
    return ["setpriv", "--pdeathsig", "TERM", *command]


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
