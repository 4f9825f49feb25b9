"""How is a process killed at a given write, without a hook in the product?

`KillingFiles` is a real disk that sends its own process SIGKILL before, in the middle of or after a durable write that
was named beforehand.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
from shoal_agent.files import DiskFiles, temporary_path
from shoal_agent.slots import JOURNAL, Journal
from shoal_wire.update import UpdateState

Moment = Literal["before", "during", "after"]


class JournalKill(msgspec.Struct, frozen=True, tag=True):
    """At the write that takes the journal from a state (None: from any) to a state."""

    moment: Moment
    to_state: UpdateState
    from_state: UpdateState | None = None


class WriteKill(msgspec.Struct, frozen=True, tag=True):
    """At the durable operation with that number, from 0."""

    moment: Moment
    number: int


Kill = JournalKill | WriteKill


class Damage(msgspec.Struct, frozen=True):
    """A file whose first byte is zero once the journal has entered a state: a disk that forgets."""

    state: UpdateState
    path: str


class KillingFiles(DiskFiles):
    """The real disk under a plan."""

    def __init__(self, *, kill: Kill | None, damage: Damage | None) -> None:
        self._kill = kill
        self._damage = damage
        self.operations = 0

    def write(self, path: Path, data: bytes) -> None:
        def half() -> None:
            temporary_path(path).write_bytes(data[: len(data) // 2])

        if path.name == JOURNAL:
            self._write_journal(path, data, half)
        else:
            self._do(lambda: super(KillingFiles, self).write(path, data), half)

    def append(self, path: Path, data: bytes, *, at: int) -> None:
        def half() -> None:
            super(KillingFiles, self).append(path, data[: len(data) // 2], at=at)

        self._do(lambda: super(KillingFiles, self).append(path, data, at=at), half)

    def move(self, source: Path, target: Path) -> None:
        self._do(lambda: super(KillingFiles, self).move(source, target), lambda: None)

    def remove(self, path: Path) -> None:
        self._do(lambda: super(KillingFiles, self).remove(path), lambda: None)

    def link(self, path: Path, target: str) -> None:
        def half() -> None:
            temporary_path(path).unlink(missing_ok=True)
            temporary_path(path).symlink_to(target)

        self._do(lambda: super(KillingFiles, self).link(path, target), half)

    def sync_all(self, folder: Path) -> None:
        self._do(lambda: super(KillingFiles, self).sync_all(folder), lambda: None)

    def remove_folder(self, folder: Path) -> None:
        def half() -> None:
            for path in list(folder.rglob("*.py")):
                path.unlink()

        if folder.is_dir():
            self._do(lambda: super(KillingFiles, self).remove_folder(folder), half)

    def _write_journal(self, path: Path, data: bytes, half: Callable[[], None]) -> None:
        to_state = msgspec.json.decode(data, type=Journal).state
        from_state = _read_state(path)
        kill = self._kill
        moment = None
        if isinstance(kill, JournalKill) and kill.to_state is to_state and kill.from_state in (None, from_state):
            moment = kill.moment
        if moment == "before":
            _die()
        if moment == "during":
            half()
            _die()
        self._do(lambda: DiskFiles.write(self, path, data), half)
        if self._damage is not None and self._damage.state is to_state:
            _damage(Path(self._damage.path))
        if moment == "after":
            _die()

    def _do(self, act: Callable[[], None], half: Callable[[], None]) -> None:
        moment = None
        if isinstance(self._kill, WriteKill) and self._kill.number == self.operations:
            moment = self._kill.moment
        self.operations += 1
        if moment == "before":
            _die()
        if moment == "during":
            half()
            _die()
        act()
        if moment == "after":
            _die()


def _read_state(path: Path) -> UpdateState | None:
    """None where there is no journal, or none that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Journal).state
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[0] = 0
    path.write_bytes(data)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
