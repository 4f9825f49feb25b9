"""How does a test type what an operator and a publisher type?"""

import hashlib
import json
import os
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.system.fleet.fleet_site import DEADLINE_S, Fleet
from tests.unit.fleet.command.material import write_release_folder

SHOAL = str(Path(sys.executable).parent / "shoal")
PASSPHRASE = "correct horse battery staple"


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one line of JSON that it printed."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    def refused(self, code: int, reason: str) -> None:
        """It ended with that code, one line for that reason, and no traceback."""
        assert (self.code, self.out) == (code, ""), self
        assert reason in self.err
        assert self.err.count("\n") == 1, self.err


class Operator:
    """A user with a login and a publisher's folder of their own."""

    def __init__(self, fleet: Fleet, home: Path) -> None:
        self.fleet = fleet
        self.home = home
        self.publisher = home / "publisher"
        self.environment = {**os.environ, "SHOAL_LOGIN": str(home / "login.json")}
        home.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return str(self.fleet.program.addresses["operators_url"])

    @property
    def fingerprint(self) -> str:
        der = ssl.PEM_cert_to_DER_cert(self.fleet.program.authority.read_text())
        return hashlib.sha256(der).hexdigest()

    def shoal(self, *arguments: str, stdin: str = "") -> Ran:
        done = subprocess.run(
            [SHOAL, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env=self.environment,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert self.fleet.token not in done.stdout + done.stderr
        assert PASSPHRASE not in done.stdout + done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    def log_in(self, *, token: str | None = None) -> Ran:
        fingerprint = ("--authority-sha256", self.fingerprint)
        return self.shoal("login", self.url, *fingerprint, "--token-file", "-", stdin=token or self.fleet.token)

    def keys_init(self) -> Ran:
        return self.shoal("keys", "init", *self.signing(), "--json", stdin=PASSPHRASE)

    def signing(self) -> tuple[str, ...]:
        return ("--publisher", str(self.publisher), "--passphrase-file", "-")

    def create(self, folder: Path) -> Ran:
        return self.shoal("release", "create", str(folder), *self.signing(), "--json", stdin=PASSPHRASE)

    def folder(self, name: str, version: int, **contents: bytes) -> Path:
        path = self.home / f"{name}-{version}"
        return write_release_folder(path, name=name, version=version, contents=contents)
