"""A board whose agent was installed by a package: before each start the launcher's guard says which agent it is."""

import base64
import hashlib
import json
import shutil
import sys
from pathlib import Path

import msgspec
from shoal_agent.own_trees import GuardRecord, tree_of
from shoal_agent.slots import AGENT_SLOT, AgentSlot, Slot
from shoal_wire.agent_release import AgentPart, parse_contents
from shoal_wire.messages import ProbationLimits, ReleaseReference
from shoal_wire.update import TERMINAL, UpdateState

from tests.faults.updater.board import KILLED, MAX_STARTS, BoardFolder, Site
from tests.faults.updater.killing_files import Kill
from tests.faults.updater.publisher import Release
from tests.faults.updater.scripted_daemon import ScriptedDaemon
from tests.unit.agent.updater.trees import archive, described, listing
from tests.unit.guard.guard_program import load_guard

guard = load_guard()

MACHINE = "x86_64"
PYTHON = "{}.{}".format(*sys.version_info[:2])
PATIENT = ProbationLimits(answers=1, seconds=0.0, deadline_s=300.0)
IMPATIENT = ProbationLimits(answers=1, seconds=0.0, deadline_s=0.0)
"""Whoever isn't heard at once goes back."""


def publish_agent(site: Site, version: int, *, agent: str = "0.2.0", passes: bool = True) -> Release:
    """A release of an agent whose self-test is all that there is of it."""
    said = {"version": agent, "python": PYTHON, "machine": MACHINE, "state_format": 1, "engines": {}}
    program = f"print({json.dumps(said)!r})" if passes else "raise SystemExit('it reads other states only')"
    files = {
        "site-packages/shoal_agent/__init__.py": b"",
        "site-packages/shoal_agent/self_test.py": program.encode(),
        "site-packages/shoal_agent/cli.py": b"padding = 1\n" * 500,
    }
    packed = archive(files, contents=listing(files, version=agent, machine=MACHINE, python=PYTHON))
    tree = described(packed, machine=MACHINE, python=PYTHON)
    part = AgentPart(version=agent, oldest_state=1, newest_state=1, trees=(tree,))
    release = site.publisher.agent_release(version, archive=packed, part=part)
    site.publisher.publish()
    return release


class GuardedBoard:
    """Starts the agent as the launcher does, and looks at what must hold at each start."""

    def __init__(self, board: BoardFolder, release: Release, *, is_heard: bool = True) -> None:
        """`is_heard`: whether the fleet hears from the agent of that release. From the package's own it does."""
        self.board = board
        self.target = tree_of(ReleaseReference("shoal-agent", release.manifest.version, release.manifest_sha256))
        self.is_heard = is_heard
        self.trees = guard.Trees(board.state / "agent", package=board.state / "package")
        file = release.manifest.files[0]
        self._keys = {file.ciphertext_sha256: base64.b64encode(bytes.fromhex(file.plaintext_sha256)).decode()}
        self.started: list[str] = []

    def desire(
        self, site: Site, release: Release, *, generation: int = 2, probation: ProbationLimits = PATIENT
    ) -> None:
        """Model release 1, which serves, and this release of the agent."""
        publisher = site.publisher
        assignments = (publisher.assign(site.first), publisher.assign(release, probation=probation))
        self.board.desire(publisher.desire(*assignments, generation=generation))

    def start(self, *, kill: Kill | None = None) -> int:
        """The agent, until its updater ends; its exit code."""
        tree = guard.choose(self.trees, is_start=True)
        self.check_bootable(tree)
        self.started.append(tree)
        self.board.trees, self.board.tree = self.trees.folder, tree
        is_heard = self.is_heard or tree != self.target
        daemon = ScriptedDaemon(self.board.state, content_keys=self._keys, is_reported=is_heard)
        ended = self.board.start(daemon, kill=kill)
        assert ended.code in (0, KILLED), ended.error
        self.heard = daemon.events()
        return ended.code

    def settle(self) -> None:
        """Start until there is nothing to do any more."""
        for _ in range(MAX_STARTS):
            before = self.board.journal_bytes()
            self.start()
            if self.board.journal_bytes() == before and self.board.journal().state in TERMINAL:
                return
        raise AssertionError(f"still not settled: {self.board.journal()}, {self.trees.read()}")

    def check_bootable(self, tree: str) -> None:
        """What is started is the package's own, or a tree of which each file is as it was packed."""
        if not tree:
            return
        folder = self.trees.path(tree)
        contents = parse_contents((folder / "tree.json").read_bytes())
        for path, file in contents.files.items():
            assert hashlib.sha256((folder / path).read_bytes()).hexdigest() == file.sha256
        assert (folder / "bin" / "python3").exists()

    def record(self) -> GuardRecord:
        path = self.trees.folder / "guard.json"
        return msgspec.json.decode(path.read_bytes(), type=GuardRecord) if path.exists() else GuardRecord()

    def slot(self) -> Slot:
        path = self.board.state / AGENT_SLOT
        return msgspec.json.decode(path.read_bytes(), type=AgentSlot).slot if path.exists() else Slot()

    def expect(self, state: UpdateState, *, running: str) -> None:
        """How it ended, and that it stays so."""
        assert self.board.ended()[0] is state, self.board.journal().reason
        self.start()
        assert self.started[-1] == running
        assert self.record().committed == running
        assert self.record().trial is None
        kept = {path.name for path in (self.trees.folder / "versions").iterdir()} if self.has_versions() else set()
        assert kept <= {running, *[tree_of(held.reference) for held in (self.slot().previous,) if held]} - {""}
        assert not (self.trees.folder / "staging").exists()
        self.board.check_tidy()
        assert self.board.versions() == (1, None)

    def has_versions(self) -> bool:
        return Path(self.trees.folder, "versions").is_dir()


def copy_of(board: BoardFolder, state: Path) -> BoardFolder:
    """The same board, to try something else on."""
    shutil.rmtree(state, ignore_errors=True)
    shutil.copytree(board.state, state, symlinks=True)
    return BoardFolder(state, board.fork_server)
