"""A board's state folder, the updaters that are started on it, and what must always be true of it."""

import hashlib
import json
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
from shoal_agent.slots import JOURNAL, SLOTS, STORE, Journal, Slot, Slots
from shoal_agent.updater.planning import held_files, needed_files
from shoal_agent.updater.transitions import BOUNDS
from shoal_wire.manifest import parse_manifest
from shoal_wire.update import TERMINAL, UpdateState
from shoal_worker.channel import Channel

from tests.faults.updater.fork_server import Ended, Start
from tests.faults.updater.killing_files import Damage, Kill
from tests.faults.updater.publisher import DEVICE, MODEL, Publisher, Release
from tests.faults.updater.scripted_daemon import ScriptedDaemon

KILLED = -signal.SIGKILL
MAX_STARTS = 12
ENDS_WITHIN_S = 60.0


@dataclass(frozen=True)
class Site:
    """A publisher and where its files are served."""

    publisher: Publisher
    url: str
    first: Release
    second: Release


class Mirror(NamedTuple):
    """A copy of a site."""

    folder: Path
    url: str


@dataclass
class BoardFolder:
    """A board under test."""

    state: Path
    fork_server: Channel
    all_variants: bool = False
    """Whether it fetches what tuning can choose from."""
    trees: Path | None = None
    """Of the agent itself, where a package installed it."""
    tree: str = ""
    """That runs."""

    def enrol(self, publisher: Publisher, *, url: str, certificates: Path) -> None:
        """What enrolment writes."""
        (self.state / "keys").mkdir(parents=True)
        (self.state / "tuf").mkdir()
        self.use_server(url)
        (self.state / "tuf" / "root.json").write_bytes(publisher.root)
        self.use_certificates(certificates)

    def use_certificates(self, certificates: Path, *, only_authority: bool = False) -> None:
        """Whom the board trusts, and what it shows."""
        sources = {"authority.pem": "ca.pem"}
        if not only_authority:
            sources |= {"tls.crt": "device.crt", "keys/tls.pem": "device.key"}
        for name, source in sources.items():
            (self.state / name).write_bytes((certificates / source).read_bytes())

    def use_server(self, url: str) -> None:
        """Where the board fetches from now on."""
        (self.state / "device.json").write_text(json.dumps({"device": DEVICE, "devices_url": url, "name": "yard"}))

    def desire(self, document: bytes) -> None:
        """What the daemon writes when a desired document came."""
        (self.state / "desired.dsse").write_bytes(document)

    def start(
        self,
        daemon: ScriptedDaemon,
        *,
        kill: Kill | None = None,
        damage: Damage | None = None,
        free_bytes: int | None = None,
        fills_up: bool = False,
    ) -> Ended:
        """Run the updater once, to its end, and look at what must always be true."""
        ours, theirs = socket.socketpair()
        trees = str(self.trees) if self.trees else ""
        start = Start(str(self.state), kill, damage, free_bytes, self.all_variants, trees, self.tree, fills_up)
        self.fork_server.send(msgspec.to_builtins(start), fds=(theirs.fileno(),))
        theirs.close()
        daemon.serve(Channel(ours))
        message, _ = self.fork_server.receive(ENDS_WITHIN_S)
        ended = msgspec.convert(message, Ended)
        self.check()
        return ended

    def settle(self, daemon: ScriptedDaemon, *, damage: Damage | None = None) -> None:
        """Start the updater as the daemon does, until it finds nothing to do any more."""
        for _ in range(MAX_STARTS):
            before = self.journal_bytes()
            ended = self.start(daemon, damage=damage)
            assert ended.code == 0, ended.error
            if self.journal_bytes() == before:
                self.check_tidy()
                return
        raise AssertionError(f"still not settled after {MAX_STARTS} starts: {self.journal()}")

    def journal_bytes(self) -> bytes:
        """Empty where there is none."""
        path = self.state / JOURNAL
        return path.read_bytes() if path.exists() else b""

    def journal(self) -> Journal:
        return msgspec.json.decode(self.journal_bytes(), type=Journal)

    def slot(self) -> Slot:
        path = self.state / SLOTS
        slots = msgspec.json.decode(path.read_bytes(), type=Slots) if path.exists() else Slots()
        return slots.slots.get(MODEL, Slot())

    def versions(self) -> tuple[int | None, int | None]:
        """Of current and previous."""
        slot = self.slot()
        return (
            slot.current.reference.version if slot.current else None,
            slot.previous.reference.version if slot.previous else None,
        )

    def store(self) -> set[str]:
        folder = self.state / STORE
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    def check(self) -> None:
        """What holds at every instant: what a slot names is there whole, and starts are counted within bounds."""
        slot = self.slot()
        for held in (slot.current, slot.previous):
            if held is None:
                continue
            raw = (self.state / STORE / held.reference.manifest_sha256).read_bytes()
            assert hashlib.sha256(raw).hexdigest() == held.reference.manifest_sha256
            for file in needed_files(parse_manifest(raw), held.variant):
                data = (self.state / STORE / file.ciphertext_sha256).read_bytes()
                assert hashlib.sha256(data).hexdigest() == file.ciphertext_sha256
        if self.journal_bytes():
            journal = self.journal()
            assert journal.state in TERMINAL or journal.attempts <= BOUNDS[journal.state].attempts

    def check_tidy(self) -> None:
        """Nothing is left over: the store holds what the slots need, and no write's beginnings lie about."""
        slot = self.slot()
        needed: set[str] = set()
        for held in (slot.current, slot.previous):
            if held is not None:
                manifest = parse_manifest((self.state / STORE / held.reference.manifest_sha256).read_bytes())
                needed |= {held.reference.manifest_sha256}
                needed |= {file.ciphertext_sha256 for file in held_files(manifest, held)}
        assert self.store() == needed
        cache = self.state / "tuf" / "cache"
        left = [path.name for path in self.state.iterdir() if path.name.endswith(".new")]
        left += [path.name for path in cache.iterdir() if path.name.startswith("tmp")] if cache.exists() else []
        assert left == []

    def ended(self) -> tuple[UpdateState, int]:
        """State and generation of the last update."""
        journal = self.journal()
        return journal.state, journal.generation


def expect_store(*releases: Release) -> set[str]:
    """Names that a board holding these has in its store."""
    return set().union(*(release.store_names for release in releases))
