"""How do the board tests reach the machine that they run on?"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import attr
from labgrid.driver import Driver
from labgrid.driver.commandmixin import CommandMixin
from labgrid.driver.exception import ExecutionError
from labgrid.factory import target_factory
from labgrid.protocol import CommandProtocol, FileTransferProtocol


@target_factory.reg_driver
@attr.s(eq=False)
class LocalShellDriver(CommandMixin, Driver, CommandProtocol, FileTransferProtocol):  # type: ignore[misc] # untyped
    """Runs commands here, with the tests' own interpreter as python3."""

    @Driver.check_active  # type: ignore[untyped-decorator]
    def run(self, command: str, timeout: float | None = None) -> tuple[list[str], list[str], int]:
        """Run a shell's line; returns lines of output and errors, and the exit code."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, "PATH": path},
        )
        return done.stdout.splitlines(), done.stderr.splitlines(), done.returncode

    @Driver.check_active  # type: ignore[untyped-decorator]
    def run_check(self, command: str, timeout: float | None = None) -> list[str]:
        """Run a shell's line that must succeed; returns lines of output."""
        stdout: list[str]
        stdout, stderr, code = self.run(command, timeout=timeout)
        if code != 0:
            raise ExecutionError(f"`{command}` ended with {code}", stdout=stdout, stderr=stderr)
        return stdout

    def get_status(self) -> int:
        """1: commands can be run."""
        return 1

    def put(self, filename: str, remotepath: str) -> None:
        """Copy a file."""
        shutil.copy(filename, remotepath)

    def get(self, filename: str, destination: str) -> None:
        """Copy a file."""
        shutil.copy(filename, destination)
