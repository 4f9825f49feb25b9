"""Does the log of a running fleet tell what was done, and does an operator's own copy show what was done to the log?"""

import hashlib
import json
import os
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from shoal_wire import audit, envelope

from tests.publisher import make_release
from tests.system.fleet.fleet_site import (
    DEADLINE_S,
    Fleet,
    FleetProgram,
    message_of,
    private_keys_of,
    run_cli,
    run_fleet,
)

SHOAL = str(Path(sys.executable).parent / "shoal")


class Auditor:
    """Someone with an admin's login who keeps a copy of the log."""

    def __init__(self, fleet: Fleet, home: Path) -> None:
        home.mkdir()
        self.copy = home / "audit.ndjson"
        self._environment = {**os.environ, "SHOAL_LOGIN": str(home / "login.json")}
        der = ssl.PEM_cert_to_DER_cert(fleet.program.authority.read_text())
        url, fingerprint = fleet.program.addresses["operators_url"], hashlib.sha256(der).hexdigest()
        self.shoal("login", url, "--authority-sha256", fingerprint, "--token-file", "-", stdin=fleet.token)

    def shoal(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """What the command said; it must end with `code`."""
        done = subprocess.run(
            [SHOAL, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env=self._environment,
            check=False,
        )
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done
        return done.stderr if code else done.stdout

    def export(self) -> Any:
        return json.loads(self.shoal("audit", "export", str(self.copy), "--json"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with run_fleet(tmp_path_factory.mktemp("fleet")) as running:
        running.begin()
        yield running


@pytest.fixture(scope="module")
def auditor(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Auditor:
    return Auditor(fleet, tmp_path_factory.mktemp("auditor") / "home")


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Fleet]:
    """A fleet whose database falls into other hands."""
    with run_fleet(tmp_path) as running:
        running.begin()
        try:
            yield running
        finally:
            if running.program.process.poll() is None:
                running.program.end()


@pytest.fixture
def witness(victim: Fleet, tmp_path: Path) -> Auditor:
    """Somebody who had exported the log before."""
    made = Auditor(victim, tmp_path / "witness")
    made.export()
    return made


def token_of(fleet: Fleet, name: str, *roles: str) -> httpx.Client:
    """A client with a token that the first one made."""
    made = fleet.post("/api/v1/tokens", {"name": name, "project": "*", "roles": roles})
    return client_of(fleet, made["token"])


def client_of(fleet: Fleet, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=fleet.program.addresses["operators_url"],
        verify=fleet.context,
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
        timeout=DEADLINE_S,
    )


def attack(fleet: Fleet, change: Callable[[Path], None]) -> None:
    """What whoever owns the server does while the fleet is down; afterwards it runs again."""
    assert fleet.program.end() == 0
    with closing(sqlite3.connect(fleet.program.state / "fleet.db")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.commit()
    change(fleet.program.state)
    fleet.program = FleetProgram(fleet.program.state)


def execute(statement: str) -> Callable[[Path], None]:
    def change(state: Path) -> None:
        with closing(sqlite3.connect(state / "fleet.db")) as database:
            database.execute(statement)
            database.commit()

    return change


def rewrite_with_the_key(state: Path) -> None:
    """The strongest attacker: every entry anew, with a fitting chain, and checkpoints signed by the fleet's own key."""
    key = Ed25519PrivateKey.from_private_bytes(private_keys_of(state)["audit"])
    head = audit.START
    with closing(sqlite3.connect(state / "fleet.db")) as database:
        rows = database.execute("SELECT sequence, at, action, subject, detail FROM audit_entry ORDER BY sequence")
        for sequence, at, action, subject, detail in rows.fetchall():
            entry = audit.make_entry(
                head, at=at, actor="user:innocent", action=action, subject=subject, detail=json.loads(detail)
            )
            head = audit.follow(head, entry)
            database.execute(
                "UPDATE audit_entry SET actor = ?, previous = ?, digest = ? WHERE sequence = ?",
                (entry.actor, entry.previous, entry.digest, sequence),
            )
        database.execute("DELETE FROM audit_checkpoint")
        sealed = audit.seal_checkpoint(head, at=1.0, signer=envelope.KeySigner(key))
        database.execute("INSERT INTO audit_checkpoint VALUES (?, 1.0, ?)", (head.sequence, sealed))
        database.commit()


def test_every_change_is_told_with_its_outcome(fleet: Fleet, auditor: Auditor) -> None:
    fleet.post("/api/v1/rollouts", {"release": "none", "version": 1, "devices": ["all"]}, status=404)
    fleet.make_token("yard")
    entries = json.loads(auditor.shoal("audit", "list", "--json", "--actor", "token:first"))
    told = [(one["action"], one["subject"], one["detail"].get("status")) for one in entries]
    for path, status in (("trust", 201), ("rollouts", 404), ("enrolment-tokens", 201)):
        assert ("api.asked", f"POST /api/v1/{path}", None) in told
        assert ("api.answered", f"POST /api/v1/{path}", status) in told
    assert fleet.token not in json.dumps(entries)


def test_only_admins_read_the_log(fleet: Fleet) -> None:
    for role in ("viewer", "operator", "releaser"):
        with token_of(fleet, role, role) as client:
            for path in ("/api/v1/audit", "/api/v1/audit/export", "/api/v1/audit/checkpoint"):
                assert client.get(path).status_code == 403


def test_an_export_is_gone_on_with_and_verified(fleet: Fleet, auditor: Auditor) -> None:
    first = auditor.export()
    fleet.make_token("garden")
    second = auditor.export()
    assert second["entries"] == first["entries"] + second["new"]
    assert second["new"] >= 2
    assert json.loads(auditor.shoal("audit", "verify", str(auditor.copy), "--json"))["entries"] == second["entries"]
    assert "unbroken; signed by the fleet" in auditor.shoal("audit", "verify")
    lines = auditor.copy.read_bytes().splitlines(keepends=True)
    changed = auditor.copy.with_name("changed.ndjson")
    changed.write_bytes(b"".join(line.replace(b"token:first", b"token:other") for line in lines))
    assert "audit entry 2: its digest is" in auditor.shoal("audit", "verify", str(changed), code=1)


def test_a_changed_entry_is_named(victim: Fleet, witness: Auditor) -> None:
    attack(victim, execute("UPDATE audit_entry SET actor = 'user:innocent' WHERE sequence = 2"))
    assert "audit entry 2: its digest is" in witness.shoal("audit", "verify", code=1)


def test_a_log_that_was_cut_off_is_noticed_by_who_has_a_copy(victim: Fleet, witness: Auditor) -> None:
    copy = witness.copy.read_bytes()
    attack(victim, execute("DELETE FROM audit_entry WHERE sequence > 1"))
    assert "its end was cut off" in witness.shoal("audit", "verify", code=1)
    assert "end of the log was cut off" in witness.shoal("audit", "export", str(witness.copy), code=1)
    assert witness.copy.read_bytes() == copy


def test_a_log_that_was_written_anew_with_the_fleets_key_is_noticed_by_who_has_a_copy(
    victim: Fleet, witness: Auditor
) -> None:
    copy = witness.copy.read_bytes()
    attack(victim, rewrite_with_the_key)
    assert "the log was written anew" in witness.shoal("audit", "verify", code=1)
    witness.shoal("audit", "export", str(witness.copy), code=1)
    assert witness.copy.read_bytes() == copy


def test_a_rollout_waits_for_somebody_else(fleet: Fleet, auditor: Auditor) -> None:
    release = make_release("notes", 1)
    fleet.publish(release)
    fleet.enrol("yard")
    assert "1 approval" in auditor.shoal("rollout", "policy", "--approvals", "1")
    said = auditor.shoal("rollout", "start", "notes", "1", "--all")
    assert "waiting for approval (0 of 1)" in said
    assert "expected the approval of somebody else" in auditor.shoal("rollout", "approve", "1", code=1)
    with token_of(fleet, "puppet", "admin") as own:
        assert "fleet started it" in message_of(own.post("/api/v1/rollouts/1/approve"))
        assert own.post("/api/v1/rollouts/policy", json={"approvals": 0}).json()["proposal"]["approved_by"] == []
        assert own.post("/api/v1/rollouts/policy/approve", json={"approvals": 0}).status_code == 403
    assert "waiting for approval (0 of 1)\n  started by token:first" in auditor.shoal("rollout", "show", "1")
    second = run_cli(fleet.program.state, "token", "add", "second", "--role", "operator").stdout.strip()
    with client_of(fleet, second) as other:
        assert other.post("/api/v1/rollouts/1/approve").json()["state"] == "running"
    assert fleet.get("/api/v1/rollouts/1")["approved_by"] == ["token:second"]
    listed = json.loads(auditor.shoal("audit", "list", "--action", "rollout", "--json"))
    assert [(one["actor"], one["action"]) for one in reversed(listed)] == [
        ("token:first", "rollout.created"),
        ("token:second", "rollout.approved"),
        ("token:second", "rollout.started"),
    ]
