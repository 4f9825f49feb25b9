"""How does a test run something on the board under test, whatever connects the two?

A probe is a small program that needs Python 3.11 and its standard library only. It reaches the board within a command,
so that nothing has to be installed there, and prints one JSON object.
"""

import base64
import json
import shlex
from pathlib import Path
from typing import Any, Protocol

PROBES = Path(__file__).with_name("probes")
COMMAND_S = 600.0


class Shell(Protocol):
    """labgrid's CommandProtocol, as far as it is used here."""

    def run(self, command: str, /, *, timeout: float | None = None) -> tuple[list[str], list[str], int]:
        """Run a shell's line; returns lines of output and errors, and the exit code."""
        ...


class Files(Protocol):
    """labgrid's FileTransferProtocol, as far as it is used here."""

    def put(self, filename: str, remotepath: str, /) -> None:
        """Copy a file to the board."""
        ...


class CommandFailed(AssertionError):
    """A command on the board ended otherwise than expected."""


class Board:
    """A board that is up. Commands are run as root, but on the machine of the tests: there as whoever runs them."""

    def __init__(self, shell: Shell, files: Files) -> None:
        self._shell = shell
        self._files = files

    def run(self, command: str, *, stdin: str = "", timeout_s: float = COMMAND_S) -> str:
        """Run a shell's line and return what it printed.

        Args:
            stdin: a few kilobytes at most: it becomes part of the command.

        Raises:
            CommandFailed: with its exit code and what it said.
        """
        fed = f"echo {_coded(stdin)} | base64 -d | ( {command} )" if stdin else command
        stdout, stderr, code = self._shell.run(fed, timeout=timeout_s)
        if code != 0:
            raise CommandFailed(f"`{command}` ended with {code}:\n" + "\n".join([*stdout, *stderr]))
        return "\n".join(stdout)

    def fails(self, command: str) -> bool:
        """Run a shell's line; says whether its exit code was another than 0."""
        return self._shell.run(command, timeout=COMMAND_S)[2] != 0

    def run_probe(self, name: str) -> dict[str, Any]:
        """Run hil/probes/<name>.py and return what it printed.

        Raises:
            CommandFailed: with its traceback.
        """
        answer: dict[str, Any] = json.loads(self.run("python3 -", stdin=(PROBES / f"{name}.py").read_text()))
        return answer

    def put(self, file: Path, path: str) -> None:
        """Copy a file to the board."""
        self._files.put(str(file), path)

    def write(self, path: str, content: str) -> None:
        """Write a short file, through a name beside it: who watches the folder never sees half of it."""
        self.run(f"cat > {shlex.quote(path)}.part && mv {shlex.quote(path)}.part {shlex.quote(path)}", stdin=content)

    def read(self, path: str) -> str:
        """A file's text."""
        return self.run(f"cat {shlex.quote(path)}")


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
