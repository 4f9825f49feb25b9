"""Which trees of the agent itself are on this board, which of them runs, and which is on trial?

The folder is read by the launcher's guard as well (`packaging/agent/guard.py`), which is older or newer than this
code: what `guard.json` holds is agreed between them, and only fields may be added.

    versions/<name>/   a tree        staging/   one that isn't whole yet
    guard.json         what the guard starts by: committed, on trial, refused
    current, trial     links: to the tree that runs, and to the one on trial, which starts the guard's watch
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from shoal_wire.encoding import Counter, Label, Seconds, Text, decode_struct, encode
from shoal_wire.errors import Malformed
from shoal_wire.messages import ReleaseReference

from shoal_agent.files import Files, temporary_path
from shoal_agent.slots import Slot

STATE_FORMAT = 1
"""Of the state folder, as this agent writes it. What an agent on trial writes, the one before it can read."""

GUARD = "guard.json"
CURRENT = "current"
TRIAL = "trial"
VERSIONS = "versions"
STAGING = "staging"
LOCK = "guard.lock"
MAX_BYTES = 1 << 20
MAX_REFUSED = 32
LOCK_PATIENCE_S = 10.0

NOT_INSTALLED = "this agent wasn't installed by a package (SHOAL_AGENT_TREES isn't set), so nothing could take it back"


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that goes back unless it is committed in time. The guard counts its starts."""

    tree: Label
    limit_s: Seconds
    starts: Counter = 0


class RefusedTree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree that never runs again, and why."""

    tree: Label
    reason: Text
    at: Seconds


class GuardRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Content of guard.json."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    committed: Label = ""
    """Name of a tree; empty: the package's own."""
    trial: Trial | None = None
    refused: tuple[RefusedTree, ...] = ()
    """The oldest first."""


class Launch(NamedTuple):
    """How this agent was started, as the launcher tells it."""

    folder: Path | None = None
    """Of the trees; None where no launcher started it."""
    tree: str = ""
    """That runs; empty: the package's own."""
    package_version: str = ""
    """Of the package's own agent, which a release must not be older than."""


NOT_LAUNCHED = Launch()


def read_launch(environment: Mapping[str, str]) -> Launch:
    """What the launcher said."""
    folder = environment.get("SHOAL_AGENT_TREES", "")
    if not folder:
        return NOT_LAUNCHED
    return Launch(Path(folder), environment.get("SHOAL_AGENT_TREE", ""), environment.get("SHOAL_AGENT_PACKAGE", ""))


class OwnTrees:
    """The folder of trees."""

    def __init__(self, launch: Launch, *, files: Files, now: Callable[[], float] = time.time) -> None:
        """Does nothing yet. `launch` names a folder."""
        assert launch.folder is not None
        self.folder = launch.folder
        self.running = launch.tree
        self.package_version = launch.package_version
        self._files = files
        self._now = now

    @property
    def staging(self) -> Path:
        """Where a tree is put together."""
        return self.folder / STAGING

    def path(self, tree: str) -> Path:
        """Where a whole tree lies."""
        return self.folder / VERSIONS / tree

    def record(self) -> GuardRecord:
        """What the guard goes by. One that can't be read says nothing, to the guard as well."""
        try:
            return decode_struct(self._files.read(self.folder / GUARD), GuardRecord, what=GUARD, limit_bytes=MAX_BYTES)
        except (FileNotFoundError, Malformed):
            return GuardRecord()

    def refusal_of(self, tree: str) -> str | None:
        """Why a tree never runs again; None where nothing is held against it."""
        return next((one.reason for one in self.record().refused if one.tree == tree), None)

    def is_on_trial(self) -> bool:
        """Whether the agent that runs is."""
        trial = self.record().trial
        return trial is not None and trial.tree == self.running

    def is_committed(self, tree: str) -> bool:
        """Whether its trial ended well."""
        return self.record().committed == tree

    def begin_trial(self, tree: str, *, limit_s: float) -> None:
        """Have the guard start that tree next. First what to go back to is on the disk, then the link is flipped."""
        with self._locked():
            self._write(replace(self.record(), trial=Trial(tree=tree, limit_s=limit_s)))
            self._files.link(self.folder / TRIAL, f"{VERSIONS}/{tree}")
            self._files.link(self.folder / CURRENT, f"{VERSIONS}/{tree}")

    def commit(self, tree: str) -> str | None:
        """End the trial well; why that can't be any more, None where it is done or was before."""
        with self._locked():
            record = self.record()
            if (reason := self.refusal_of(tree)) is not None:
                return reason
            self._write(replace(record, committed=tree, trial=None))
            self._files.remove(self.folder / TRIAL)
            return None

    def refuse(self, tree: str, *, reason: str) -> None:
        """End the trial: the tree never runs again, and what was committed before is started next."""
        with self._locked():
            record = self.record()
            if self.refusal_of(tree) is None:
                one = RefusedTree(tree=tree, reason=reason[:4000], at=self._now())
                record = replace(record, refused=(*record.refused, one)[-MAX_REFUSED:])
            record = replace(record, trial=None, committed="" if record.committed == tree else record.committed)
            self._write(record)
            if record.committed:
                self._files.link(self.folder / CURRENT, f"{VERSIONS}/{record.committed}")
            else:
                self._files.remove(self.folder / CURRENT)
            self._files.remove(self.folder / TRIAL)

    def collect(self, *, keep: Collection[str]) -> None:
        """Remove trees that are neither among `keep`, nor committed, nor on trial, nor running."""
        record = self.record()
        kept = {*keep, record.committed, record.trial.tree if record.trial else "", self.running}
        for name in self._files.names(self.folder / VERSIONS):
            if name not in kept:
                self._files.remove_folder(self.path(name))
        self._files.remove_folder(self.staging)
        for left in map(temporary_path, (self.folder / name for name in (GUARD, CURRENT, TRIAL))):
            self._files.remove(left)

    def _write(self, record: GuardRecord) -> None:
        if record != self.record():
            self._files.write(self.folder / GUARD, encode(record))

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with guard.json. Raises TimeoutError: the guard holds it, which it does for an instant only."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + LOCK_PATIENCE_S
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{self.folder / LOCK} is held by another process") from None
                    time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)


def slot_that_runs(slot: Slot, *, running: str) -> Slot:
    """The agent's slot as it is true now: after the package was upgraded, another agent runs than the slot says."""
    held = slot.current
    return slot if held is None or tree_of(held.reference) == running else replace(slot, current=None)


def tree_of(reference: ReleaseReference) -> str:
    """Name of the tree that a release of the agent is unpacked to."""
    return f"{reference.version}-{reference.manifest_sha256[:12]}"
