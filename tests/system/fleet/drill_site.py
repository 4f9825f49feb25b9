"""How does a drill get a publisher who types commands, and a board whose real updater obeys?

The commands run in this process, which is quicker; `test_command.py` runs them as the programs that they are.
"""

import argparse
import base64
import contextlib
import io
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from cryptography import x509
from shoal_agent.slots import JOURNAL, SLOTS, Journal, Slots
from shoal_agent.state import AUTHORITY
from shoal_fleet.command.changing import changing
from shoal_fleet.command.cli import main
from shoal_wire import topics
from shoal_wire.encoding import decode
from shoal_wire.messages import AssignmentKeys, Desired, EnrolmentResponse, TrustReport
from shoal_wire.topics import Down
from shoal_worker.channel import Channel

from tests.faults.updater.publisher import MODEL
from tests.faults.updater.scripted_daemon import ScriptedDaemon
from tests.system.fleet.broker_site import Client
from tests.system.fleet.fleet_site import DEADLINE_S, EnrolledBoard, Fleet
from tests.unit.fleet.command.material import write_release_folder
from tests.unit.fleet.enrolment.applicant import Applicant


def read_desired(raw: bytes) -> Desired:
    """What an envelope holds, whoever signed it."""
    return msgspec.json.decode(base64.b64decode(json.loads(raw)["payload"]), type=Desired)


def run_updater(state: Path, *, refresh: bool) -> tuple[ScriptedDaemon, int, str]:
    """Start the updater of a state folder until it ends: the daemon that it talked to, its exit code and its words."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "shoal_agent.updater", "--fd", str(theirs.fileno())]
    command += ["--state", str(state), "--engines", "onnx:onnxruntime"]
    daemon = ScriptedDaemon(state)
    with subprocess.Popen(
        command + ["--refresh"] * refresh, pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, text=True
    ) as updater:
        theirs.close()
        daemon.serve(Channel(ours))
        _, error = updater.communicate(timeout=DEADLINE_S)
    return daemon, updater.returncode, error


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


class Person:
    """Somebody with a login and a publisher's folder of their own."""

    def __init__(self, fleet: Fleet, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.folder = home / "publisher"
        login = {
            "url": fleet.program.addresses["operators_url"],
            "token": fleet.token,
            "authority": fleet.program.authority.read_text(),
        }
        (home / "login.json").write_text(json.dumps(login))

    @contextlib.contextmanager
    def logged_in(self) -> Iterator[None]:
        before = os.environ.get("SHOAL_LOGIN")
        os.environ["SHOAL_LOGIN"] = str(self.home / "login.json")
        try:
            yield
        finally:
            os.environ.pop("SHOAL_LOGIN") if before is None else os.environ.update(SHOAL_LOGIN=before)

    def shoal(self, *arguments: str) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with self.logged_in(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(arguments)
        return Ran(code, out.getvalue(), err.getvalue())

    def sign_lists(
        self, *, keys: Sequence[str] | None = None, authorities: Sequence[x509.Certificate] | None = None
    ) -> None:
        """Name assignment keys and authorities with the folder's release key, whatever the command would say."""
        options = argparse.Namespace(publisher=self.folder, passphrase_file=None, pin_file=None, json=True)
        with self.logged_in(), contextlib.redirect_stdout(io.StringIO()), changing(options) as work:
            if keys is not None:
                work.made.set_assignment_keys(keys)
            if authorities is not None:
                work.made.set_authorities(authorities)
            work.end(title="lists", says=())

    def keys(self, action: str, *arguments: str) -> Ran:
        return self.shoal("keys", action, *arguments, "--publisher", str(self.folder), "--json")

    def release(self, version: int, *, name: str = MODEL) -> Ran:
        content = f"weights of {name} {version}".encode()
        folder = write_release_folder(
            self.home / f"{name}-{version}", name=name, version=version, contents={"model": content}
        )
        return self.shoal("release", "create", str(folder), "--publisher", str(self.folder), "--json")

    def key_ids(self, role: str) -> list[str]:
        ids: list[str] = self.keys("show").json["roles"][role]["keys"]
        return ids


class Board:
    """An enrolled board on which updaters are started."""

    def __init__(self, fleet: Fleet, name: str, *, folder: Path, token: str | None = None) -> None:
        self.name = name
        self.state = folder / name
        self._fleet = fleet
        applicant = Applicant()
        reply = fleet.ask_to_enrol(token or fleet.make_token(name), applicant.sign())
        assert reply.status_code == 200, reply.text
        answer = decode(reply.content, EnrolmentResponse, what="answer")
        self.state.mkdir(parents=True)
        self._enrolled = EnrolledBoard(self.state, applicant, answer)
        self._write_enrolment()

    @property
    def device(self) -> str:
        return self._enrolled.answer.device

    def _write_enrolment(self) -> None:
        """What enrolment writes."""
        answer = self._enrolled.answer
        for folder in ("keys", "tuf"):
            (self.state / folder).mkdir(parents=True)
        (self.state / "tuf" / "root.json").write_bytes(base64.b64decode(answer.root))
        (self.state / "authority.pem").write_text(answer.authority)
        (self.state / "tls.crt").write_text(answer.certificate)
        (self.state / "keys" / "tls.pem").write_bytes(self._enrolled.applicant.tls_key_pem)
        device = {"device": self.device, "devices_url": answer.devices_url}
        (self.state / "device.json").write_text(json.dumps(device))

    def hear(self, *, until: Callable[[bytes], bool]) -> None:
        """Take the desired document from the broker, once it is as it should be."""
        client = Client(
            port=self._enrolled.answer.broker_port,
            context=self._enrolled.context(),
            client_id=self.device,
            keeps_session=False,
            will=None,
        )
        try:
            client.subscribe(topics.down(self.device, Down.DESIRED))
            _, payload = client.receive()
            while not until(payload):
                _, payload = client.receive()
        finally:
            client.close()
        (self.state / "desired.dsse").write_bytes(payload)

    def update(self, *, refresh: bool = False) -> ScriptedDaemon:
        """Start the updater until it ends; returns the daemon that it talked to."""
        daemon, self.code, self.error = run_updater(self.state, refresh=refresh)
        return daemon

    def roll_out(self, version: int) -> None:
        """Have the fleet assign a release, and hear of it."""
        self._fleet.post("/api/v1/rollouts", {"release": MODEL, "version": version, "devices": [self.name]})
        self.hear(until=lambda raw: [one.version for one in read_desired(raw).assignments] == [version])

    def journal(self) -> Journal:
        return msgspec.json.decode((self.state / JOURNAL).read_bytes(), type=Journal)

    def versions(self) -> tuple[int | None, int | None]:
        """Of current and previous."""
        path = self.state / SLOTS
        slots = msgspec.json.decode(path.read_bytes(), type=Slots) if path.exists() else Slots()
        slot = slots.slots.get(MODEL)
        held = (slot.current, slot.previous) if slot else (None, None)
        current, previous = (one.reference.version if one else None for one in held)
        return current, previous

    def assignment_keys(self) -> tuple[str, ...]:
        return msgspec.json.decode((self.state / "trust.json").read_bytes(), type=AssignmentKeys).keys

    def authorities(self) -> set[x509.Certificate]:
        return set(x509.load_pem_x509_certificates((self.state / AUTHORITY).read_bytes()))

    def report(self) -> TrustReport:
        return msgspec.json.decode((self.state / "trust-report.json").read_bytes(), type=TrustReport)
