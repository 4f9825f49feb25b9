"""Which items were given to a board, and which answer must each of them have?"""

import hashlib
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from subprocess import Popen
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from shoal_wire.encoding import canonical, decode_struct

_LONGEST_WAIT_S = 5.0


class Item(NamedTuple):
    """A file that was placed in a board's folder."""

    name: str
    sha256: str
    words: str
    """What is in it: the notes that are played, the faces that are shown."""


class _Said(msgspec.Struct, frozen=True):
    """A line of the program that places items."""

    file: str
    sha256: str
    words: str


class Placing:
    """Follows a program that places items in a folder and says each of them in a line of JSON."""

    def __init__(self, program: Popen[str]) -> None:
        self._program = program
        self._placed: dict[str, Item] = {}
        self._another = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="placing", daemon=True)
        self._thread.start()

    def placed(self) -> Mapping[str, Item]:
        """All items so far, by file name; grows while items are placed."""
        return MappingProxyType(self._placed)

    def stop(self) -> None:
        """Place no more.

        The program is ended when it has just said an item and waits for the time of the next: one that it had placed
        and not said would be missing here.
        """
        self._another.clear()
        if self._thread.is_alive():
            self._another.wait(_LONGEST_WAIT_S)
        self._program.terminate()
        self._program.wait()
        self._thread.join()

    def _follow(self) -> None:
        assert self._program.stdout is not None
        try:
            for line in self._program.stdout:
                said = decode_struct(line.encode(), _Said, what="item")
                self._placed[said.file] = Item(said.file, said.sha256, said.words)
                self._another.set()
        finally:
            self._another.set()


def stop_all(placings: Iterable[Placing]) -> None:
    """Stop several, all at the same time."""
    running = list(placings)
    with ThreadPoolExecutor(max_workers=max(1, len(running))) as pool:
        list(pool.map(Placing.stop, running))


def answer_id(device: str, source: str, item: Item) -> str:
    """The id that the answer to an item must have: see docs/protocol.md."""
    identity = canonical(["shoal/answer/v1", device, source, item.name, item.sha256])
    return hashlib.sha256(identity).hexdigest()
