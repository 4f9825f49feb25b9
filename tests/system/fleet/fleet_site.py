"""How does a test get a running fleet, as its own program, with an operator and boards that enrol?"""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from shoal_fleet.authority_keys import open_authorities
from shoal_fleet.database import make_sessions, open_engine
from shoal_fleet.kek.service import list_secret_keys, read_secret_key
from shoal_fleet.pki.authorities import Authorities
from shoal_fleet.state import StatePaths, unlock
from shoal_wire import paths
from shoal_wire.encoding import decode
from shoal_wire.messages import EnrolmentResponse
from shoal_wire.token import parse_token

from tests.publisher import Publisher, SealedRelease, text
from tests.unit.fleet.enrolment.applicant import Applicant

DEADLINE_S = 90.0


class FleetProgram:
    """`shoal-fleet serve` on free ports of the loopback, in a state folder of its own."""

    def __init__(self, state: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.state = state
        self.log = state.parent / "fleet.log"
        command = [sys.executable, "-m", "shoal_fleet.cli", "serve", "--state", str(state)]
        for name in ("port", "devices-port", "broker-port"):
            command += [f"--{name}", "0"]
        self._log = self.log.open("ab")
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.lines: list[dict[str, Any]] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(DEADLINE_S) or "operators_url" not in self.lines[-1]:
            self.end(signal.SIGKILL)
            raise AssertionError(f"the fleet didn't start:\n{self.log.read_text()}")
        self.addresses = self.lines[-1]
        wait_for_answer(self.addresses["operators_url"], authority=self.authority)

    @property
    def authority(self) -> Path:
        return self.state / "authority" / "ca.pem"

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal; returns the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(DEADLINE_S)
        self._reader.join(DEADLINE_S)
        if self.process.stdout:
            self.process.stdout.close()
        self._log.close()
        return code

    def broker_pid(self) -> int:
        """Process id of the broker that listens."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert len(children) == 1, children
        return int(children[0])

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))
            if "operators_url" in self.lines[-1]:
                self._ready.set()
        self._ready.set()


def authorities_of(state: Path) -> Authorities:
    """With their private keys, which open where the key-encryption key lies in the state folder."""
    fleet, now = StatePaths(state), time.time()
    engine = open_engine(fleet.database)
    try:
        return open_authorities(fleet.authority, make_sessions(engine), vault=unlock(fleet, now=now), now=now)
    finally:
        engine.dispose()


def private_keys_of(state: Path) -> dict[str, bytes]:
    """All private keys that a fleet keeps in its database, as they are wrapped, by the name of their row."""
    fleet = StatePaths(state)
    vault, engine = unlock(fleet, now=time.time()), open_engine(fleet.database)
    try:
        with make_sessions(engine)() as session:
            found = {name: read_secret_key(session, name, vault=vault) for name in list_secret_keys(session)}
    finally:
        engine.dispose()
    return {name: key for name, key in found.items() if key is not None}


@dataclass
class EnrolledBoard:
    """A board with its certificate, which can ask the devices' listener."""

    folder: Path
    applicant: Applicant
    answer: EnrolmentResponse

    def context(self) -> ssl.SSLContext:
        """TLS with this board's certificate."""
        chain = self.folder / f"{self.answer.device}.pem"
        chain.write_bytes(self.answer.certificate.encode() + self.applicant.tls_key_pem)
        context = ssl.create_default_context(cadata=self.answer.authority)
        context.load_cert_chain(chain)
        return context

    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.answer.devices_url, verify=self.context(), trust_env=False, timeout=DEADLINE_S
        )


class Fleet:
    """A running fleet as an operator sees it."""

    def __init__(self, program: FleetProgram, *, token: str) -> None:
        self.program = program
        self.token = token
        self.context = ssl.create_default_context(cafile=program.authority)
        self.http = httpx.Client(
            base_url=program.addresses["operators_url"],
            verify=self.context,
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
            timeout=DEADLINE_S,
            # A connection that lay idle may end just as it is used again.
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        self.publisher = Publisher(self.get("/api/v1/fleet-keys"))

    def get(self, path: str) -> Any:
        reply = self.http.get(path)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, path: str, body: Mapping[str, object], *, status: int = 201) -> Any:
        reply = self.http.post(path, json=body)
        assert reply.status_code == status, reply.text
        return reply.json()

    def begin(self) -> None:
        """The publisher's ceremony."""
        self.post("/api/v1/trust", self.publisher.ceremony())

    def upload(self, release: SealedRelease) -> None:
        reply = self.http.put(f"/api/v1/sealed/{release.ciphertext_sha256}", content=release.ciphertext)
        assert reply.status_code == 201, reply.text

    def release_body(self, release: SealedRelease, *, targets: bytes | None = None) -> dict[str, object]:
        grant = release.grant(self.publisher.fleet_keys["hpke"])
        return {
            "targets": text(self.publisher.next_targets(release) if targets is None else targets),
            "manifest": text(release.manifest),
            "grants": [
                {
                    "ciphertext_sha256": grant.ciphertext_sha256,
                    "counter": grant.counter,
                    "sealed_key": grant.sealed_key,
                }
            ],
        }

    def publish(self, release: SealedRelease) -> Any:
        """Upload and create."""
        self.upload(release)
        return self.post("/api/v1/releases", self.release_body(release))

    def make_token(self, name: str, *, ttl_s: int = 3600) -> str:
        return str(self.post("/api/v1/enrolment-tokens", {"name": name, "ttl_s": ttl_s})["token"])

    def ask_to_enrol(self, token: str, body: bytes) -> httpx.Response:
        """What a board does with a token: no API token, and only the secret of its own."""
        parsed = parse_token(token)
        with httpx.Client(verify=self.context, trust_env=False, timeout=DEADLINE_S) as http:
            return http.post(
                parsed.url + paths.ENROL, content=body, headers={"Authorization": f"Bearer {parsed.secret}"}
            )

    def enrol(self, name: str) -> EnrolledBoard:
        applicant = Applicant()
        reply = self.ask_to_enrol(self.make_token(name), applicant.sign())
        assert reply.status_code == 200, reply.text
        answer = decode(reply.content, EnrolmentResponse, what="answer")
        return EnrolledBoard(self.program.state.parent, applicant, answer)


@contextmanager
def run_fleet(folder: Path) -> Iterator[Fleet]:
    """A new fleet in a folder, stopped at the end; it must stop by itself."""
    program = FleetProgram(folder / "state")
    fleet = Fleet(program, token=program.lines[0]["token"])
    try:
        yield fleet
    finally:
        fleet.http.close()
        if program.process.poll() is None:
            assert program.end() == 0, program.log.read_text()


@contextmanager
def served_again(fleet: Fleet, *options: str, state: Path | None = None) -> Iterator[None]:
    """The same fleet, started again where it was; or from another state folder, with the same addresses."""
    own = fleet.program.state
    fleet.program = FleetProgram(state or own, *options)
    try:
        yield
    finally:
        code = fleet.program.end()
        fleet.program.state = own
        assert code == 0


def wait_for_answer(url: str, *, authority: Path) -> None:
    """Until the operators' listener answers."""
    context = ssl.create_default_context(cafile=authority)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            if httpx.get(f"{url}/api/v1/health", verify=context, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            assert time.monotonic() < deadline, "no answer"


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def basic(token: str, *, user: str = "anyone") -> dict[str, str]:
    """Header of HTTP Basic with a token as the password (RFC 7617)."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


def message_of(reply: httpx.Response) -> str:
    """The sentence of a refusal, whose body must be of the agreed form."""
    body = reply.json()
    assert list(body) == ["error"]
    assert sorted(body["error"]) == ["code", "message"]
    return str(body["error"]["message"])


def run_cli(
    state: Path, *arguments: str, environment: Sequence[tuple[str, str]] = ()
) -> subprocess.CompletedProcess[str]:
    """`shoal-fleet …` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "shoal_fleet.cli", *arguments, "--state", str(state)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        env={**os.environ, **dict(environment)},
    )
