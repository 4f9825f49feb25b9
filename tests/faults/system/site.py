"""A fleet as its own program with a real broker, its operator and its publisher, and what its database holds."""

import base64
import hashlib
import os
import signal
import sqlite3
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.messages import Reported, SlotReport

from tests.faults.system.board import Board
from tests.faults.system.processes import wait_for
from tests.faults.system.releases import GOOD, MODEL
from tests.system.fleet.fleet_site import DEADLINE_S, FleetProgram, lives

LENIENT = {"answers": 5, "seconds": 1.0, "p95_ratio": 50.0}
"""Short, and with a limit that a busy machine doesn't reach."""
STRICT = {"answers": 5, "seconds": 1.0, "p95_ratio": 0.5}
"""For the slow release, which takes about eight times as long: its limit holds even if the baseline was measured on a
busy machine."""


class Site:
    """A fleet that may be killed."""

    def __init__(self, folder: Path, *, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self._environment = environment
        self._program = self._serve()
        self._token: str = self._program.lines[0]["token"]
        self._http = httpx.Client(
            base_url=self._program.addresses["operators_url"],
            verify=ssl.create_default_context(cafile=self._program.authority),
            headers={"Authorization": f"Bearer {self._token}"},
            trust_env=False,
            timeout=DEADLINE_S,
            # A connection that lay idle may end just as it is used again, and fleets are killed here.
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    @property
    def state(self) -> Path:
        return self.folder / "fleet"

    @property
    def is_running(self) -> bool:
        return self._program.process.poll() is None

    def publish(self, folders: Mapping[int, Path]) -> None:
        """All releases, through the commands that a publisher types."""
        der = ssl.PEM_cert_to_DER_cert(self._program.authority.read_text())
        fingerprint = ("--authority-sha256", hashlib.sha256(der).hexdigest())
        url = self._program.addresses["operators_url"]
        self.command("login", url, "--token-file", "-", *fingerprint, stdin=self._token)
        publisher = ("--publisher", str(self.folder / "publisher"))
        self.command("keys", "init", *publisher)
        for folder in folders.values():
            self.command("release", "create", str(folder), *publisher)

    def kill(self) -> None:
        """SIGKILL; the broker must end as well where it is the fleet's."""
        brokers = self.broker_pids()
        assert self._program.end(signal.SIGKILL) == -signal.SIGKILL
        wait_for(lambda: not any(lives(pid) for pid in brokers), what="the broker ended with the fleet")

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The fleet does nothing, though its connections stay."""
        self._program.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._program.process.send_signal(signal.SIGCONT)

    def start(self) -> None:
        """Serve again, where it served before."""
        self._program = self._serve()

    def stop(self) -> None:
        self._http.close()
        if self.is_running:
            assert self._program.end() == 0, self._program.log.read_text()

    def make_token(self, name: str) -> str:
        """For one board to enrol with."""
        return str(self.post("/api/v1/enrolment-tokens", {"name": name, "ttl_s": 3600})["token"])

    def broker_pids(self) -> list[int]:
        """Of the broker that the fleet runs; none while it has just been killed, or is another's."""
        pid = self._program.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def roll_out(self, board: Board, version: int, *, probation: Mapping[str, float] = LENIENT) -> int:
        """Number of the rollout."""
        body = {"release": MODEL, "version": version, "devices": [board.device], "probation": dict(probation)}
        return int(self.post("/api/v1/rollouts", body)["id"])

    def attempt(self, rollout: int) -> dict[str, Any]:
        """How far the one device of a rollout is."""
        (attempt,) = self.get(f"/api/v1/rollouts/{rollout}")["devices"]
        return dict(attempt)

    def reported(self, board: Board) -> Reported | None:
        """What the board says it runs, from the document that it signed."""
        detail = self.get(f"/api/v1/devices/{board.device}")
        if detail["reported_envelope"] is None:
            return None
        key = envelope.parse_public_key(detail["identity_key"], what="identity key")
        raw = base64.b64decode(detail["reported_envelope"])
        return decode(envelope.verify(raw, envelope.REPORTED, [key], what="reported"), Reported, what="reported")

    def slot_report(self, board: Board) -> SlotReport | None:
        reported = self.reported(board)
        return reported.slots[0] if reported and reported.slots else None

    def serves(self, board: Board, version: int | None) -> bool:
        """Whether that release is current, serves, and has no update under way, by the board's own report."""
        slot = self.slot_report(board)
        if slot is None or slot.current is None:
            return False
        return slot.serving == slot.current and slot.current.version == version

    def answers(self) -> Counter[str]:
        """Rows in the database of each answer id."""
        return Counter(dict(self.query("SELECT answer_id, COUNT(*) FROM answer GROUP BY answer_id")))

    def version_that_answered(self, answer_id: str) -> int | None:
        rows = self.query("SELECT version FROM answer WHERE answer_id = ?", answer_id)
        return int(rows[0][0]) if rows else None

    def query(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Straight from the file, so that a fleet that is away doesn't matter."""
        with closing(sqlite3.connect(f"file:{self.state / 'fleet.db'}?mode=ro", uri=True)) as database:
            return database.execute(statement, parameters).fetchall()

    def next_good(self, board: Board) -> int:
        """A good release whose weights the board doesn't hold."""
        slot = board.slot()
        held = {release.reference.version for release in (slot.current, slot.previous) if release}
        return next(version for version in GOOD if version not in held)

    def expect_every_answer_once(self, board: Board) -> None:
        """Nothing is lost, nothing doubled, nothing declared lost, and nothing waits on the board."""
        expected = Counter(dict.fromkeys(board.expected, 1))

        def difference() -> tuple[int, list[str], list[tuple[str, int]]]:
            found = self.answers()
            missing = [board.expected[one] for one in expected - found]
            return sum(found.values()), missing[:5], list((found - expected).items())[:5]

        wait_for(lambda: self.answers() == expected, what=lambda: f"rows, missing, too many: {difference()}")
        wait_for(lambda: not os.listdir(board.items), what=lambda: f"still in the folder: {os.listdir(board.items)}")
        assert self.query("SELECT * FROM lost_row") == []
        assert self.query("SELECT * FROM rejected_row") == []

    def get(self, path: str) -> Any:
        reply = self._http.get(path)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        reply = self._http.post(path, json=body)
        assert reply.status_code == 201, reply.text
        return reply.json()

    def _serve(self) -> FleetProgram:
        return FleetProgram(self.state, environment=self._environment)

    def command(self, *arguments: str, stdin: str = "") -> None:
        done = subprocess.run(
            [sys.executable, "-m", "shoal_fleet.command.cli", *arguments, "--json"],
            input=stdin,
            text=True,
            capture_output=True,
            env={**os.environ, "SHOAL_LOGIN": str(self.folder / "login.json")},
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
