"""A board on which the agent was installed by a package, with what systemd does for it: starts it again, and the
guard's watch while there is a trial."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

GUARD = Path(__file__).parents[3] / "packaging" / "agent" / "guard.py"
_AGAIN_S = 0.2
_ENDS_S = 60.0


class ManagedAgent:
    """The agent as a unit."""

    def __init__(self, state: Path, *, package: Path, log: Path) -> None:
        self.trees = state / "agent"
        self.starts = 0
        self._log = log.open("ab")
        self._environment = {**os.environ, "SHOAL_STATE": str(state), "SHOAL_AGENT_FILES": str(package)}
        self._stopping = threading.Event()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._threads = [
            threading.Thread(target=self._keep, args=("launch", "run")),
            threading.Thread(target=self._keep, args=("watch",)),
        ]

    def start(self) -> None:
        """As at boot."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """As at shutdown."""
        self._stopping.set()
        for process in list(self._processes.values()):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for thread in self._threads:
            thread.join(_ENDS_S)
        self._log.close()

    @property
    def current(self) -> str:
        """Name of the tree that the link leads to; empty for the package's own."""
        link = self.trees / "current"
        return link.readlink().name if link.is_symlink() else ""

    def command(self, *arguments: str) -> str:
        """What a person types on the board."""
        command = [sys.executable, "-I", str(GUARD), "launch", *arguments]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def _keep(self, *words: str) -> None:
        while not self._stopping.is_set():
            if words[0] == "watch" and not (self.trees / "trial").is_symlink():
                self._stopping.wait(_AGAIN_S)
                continue
            process = subprocess.Popen(
                [sys.executable, "-I", str(GUARD), *words],
                env=self._environment,
                stdout=self._log,
                stderr=self._log,
                stdin=subprocess.DEVNULL,
            )
            self._processes[words[0]] = process
            self.starts += words[0] == "launch"
            if self._stopping.is_set():
                process.terminate()
            process.wait()
            self._stopping.wait(_AGAIN_S)
