"""How does a board get a fleet? One runs beside the tests, by the installed commands, where the board reaches it.

What happens to it in a test happens to a real fleet: it is stopped, its broker is killed, its answers are read as an
operator reads them.
"""

import contextlib
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

_Found = TypeVar("_Found")
_COMMANDS = Path(sys.executable).parent
_START_S = 60.0
_POLL_S = 0.5
_PAGE = 500


class NotInTime(AssertionError):
    """What a test waited for didn't come."""


class HostFleet:
    """A fleet in a folder of its own, with an operator who is logged in and a publisher. `stop` ends it."""

    def __init__(self, folder: Path, *, host: str, bind: str) -> None:
        """Make the fleet and start it.

        Args:
            host: name or address of this machine as boards see it.
            bind: IP address that all listeners are on.
        """
        self._folder = folder
        self._bind = bind
        self._environment = {**os.environ, "SHOAL_LOGIN": str(folder / "operator" / "login.json")}
        self._serve = ["serve", "--state", str(folder / "fleet"), "--host", host, "--bind", bind]
        self._serve += [word for name in ("port", "devices-port", "broker-port") for word in (f"--{name}", "0")]
        self._process: subprocess.Popen[bytes] | None = None
        made = self.command("shoal-fleet", "init", "--state", str(folder / "fleet"))
        self._token = str(made["token"])
        self.start()
        login = ["login", self._url(), "--token-file", "-", "--authority-sha256", made["authority_sha256"], "--json"]
        self.command("shoal", *login, stdin=self._token)
        self.command("shoal", "keys", "init", "--publisher", str(folder / "publisher"), "--json")

    def start(self) -> None:
        """Start the server with its broker, on the ports that it had, and wait until it answers."""
        log = self._folder / "fleet.log"
        with log.open("ab") as file:
            command = [str(_COMMANDS / "shoal-fleet"), *self._serve]
            self._process = subprocess.Popen(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL)

        def answers() -> bool | None:
            assert self._process is not None and self._process.poll() is None, log.read_text()
            with contextlib.suppress(httpx.TransportError, FileNotFoundError):
                return bool(self.get("/api/v1/health"))
            return None

        wait_for("the fleet answers", answers, timeout_s=_START_S)

    def stop(self) -> None:
        """Stop the server; its broker ends with it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(_START_S)
            self._process = None

    def kill_broker(self) -> None:
        """Kill the broker without warning. The fleet starts it again."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)

    def command(self, name: str, *arguments: str, stdin: str = "", timeout_s: float = 600) -> dict[str, Any]:
        """Run one of Shoal's commands; returns the JSON object on its last line, or an empty one.

        Raises:
            AssertionError: it failed, with what it said.
        """
        done = subprocess.run(
            [_COMMANDS / name, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=self._environment,
        )
        assert done.returncode == 0, f"`{name} {' '.join(arguments[:3])} …` failed: {done.stderr}"
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return found

    def make_token(self, name: str) -> str:
        """A token with which one board enrols under a name."""
        return str(self.command("shoal", "device", "token", "--name", name, "--json")["token"])

    def let_go(self, name: str) -> None:
        """Shut a device out, where there is one of that name: another may have it then."""
        if self.find_device(name) is not None:
            self.command("shoal", "device", "revoke", name, "--yes")

    def create_release(self, folder: Path) -> None:
        """Sign what is in a release folder and upload it."""
        publisher = str(self._folder / "publisher")
        self.command("shoal", "release", "create", str(folder), "--publisher", publisher, "--json")

    def start_rollout(self, model: str, version: int, *, device: str, options: Sequence[str] = ()) -> int:
        """Begin to move a device to a release; returns the rollout's number. Doesn't wait."""
        words = [model, str(version), "--device", device, *options, "--json"]
        return int(self.command("shoal", "rollout", "start", *words)["id"])

    def ended_state(self, rollout: int) -> str | None:
        """How a rollout ended: succeeded, failed or aborted; None while it goes on."""
        state = str(self.get(f"/api/v1/rollouts/{rollout}")["state"])
        return state if state in ("succeeded", "failed", "aborted") else None

    def device(self, name: str) -> dict[str, Any]:
        """What the fleet knows of a device."""
        found: dict[str, Any] = self.get(f"/api/v1/devices/{name}")
        return found

    def find_device(self, name: str) -> dict[str, Any] | None:
        """What the fleet knows of a device that isn't revoked; None where there is none of that name."""
        found: list[dict[str, Any]] = self.get("/api/v1/devices")
        return next((one for one in found if one["name"] == name and one["revoked_at"] is None), None)

    def answers(self, device: str, *, after: int = 0) -> list[dict[str, Any]]:
        """A device's answers in the fleet's database, or those after a row."""
        rows: list[dict[str, Any]] = []
        while page := self.get("/api/v1/answers", device=device, limit=_PAGE, after_id=after):
            rows += page
            after = page[-1]["id"]
        return rows

    def get(self, path: str, **query: str | int) -> Any:
        """Ask the operators' API."""
        context = ssl.create_default_context(cafile=self._folder / "fleet" / "authority" / "ca.pem")
        headers = {"Authorization": f"Bearer {self._token}"}
        reply = httpx.get(
            self._url() + path, params=query, headers=headers, verify=context, trust_env=False, timeout=_START_S
        )
        assert reply.status_code == 200, f"GET {path}: {reply.status_code}: {reply.text}"
        return reply.json()

    def _url(self) -> str:
        """Of the operators' listener, as it is reached from here."""
        addresses = json.loads((self._folder / "fleet" / "addresses.json").read_bytes())
        port = addresses["operators_url"].rpartition(":")[2]
        return f"https://{'127.0.0.1' if self._bind == '0.0.0.0' else self._bind}:{port}"


@contextlib.contextmanager
def run_fleet(folder: Path, *, host: str, bind: str) -> Iterator[HostFleet]:
    """A new fleet, ended with the block."""
    fleet = HostFleet(folder, host=host, bind=bind)
    try:
        yield fleet
    finally:
        fleet.stop()


def wait_for(what: str, look: Callable[[], _Found | None], *, timeout_s: float) -> _Found:
    """The first thing other than None that `look` finds.

    Raises:
        NotInTime: names what it waited for.
    """
    deadline = time.monotonic() + timeout_s
    while (found := look()) is None:
        if time.monotonic() > deadline:
            raise NotInTime(f"{what}: not within {timeout_s:.0f} s")
        time.sleep(_POLL_S)
    return found
