"""Which sounds were given to the board, and which answer must each of them have?"""

import hashlib
import threading
from collections.abc import Mapping
from subprocess import Popen
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from shoal_wire.encoding import canonical, decode_struct

SOURCE = "sounds"
_LONGEST_WAIT_S = 5.0


class Sound(NamedTuple):
    """A sound that was placed in the board's folder."""

    item: str
    sha256: str
    played: str
    """The score in words."""


class _Said(msgspec.Struct, frozen=True):
    """A line of the program that places sounds."""

    file: str
    sha256: str
    words: str


class Sounds:
    """Follows the program that places sounds, which says each of them in a line of JSON."""

    def __init__(self, program: Popen[str]) -> None:
        self._program = program
        self._placed: dict[str, Sound] = {}
        self._another = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="sounds", daemon=True)
        self._thread.start()

    def placed(self) -> Mapping[str, Sound]:
        """All sounds so far, by file name; grows while sounds are placed."""
        return MappingProxyType(self._placed)

    def stop(self) -> None:
        """Place no more.

        The program is ended when it has just said a sound and waits for the time of the next: one that it had placed
        and not said would be missing here.
        """
        self._another.clear()
        self._another.wait(_LONGEST_WAIT_S)
        self._program.terminate()
        self._program.wait()
        self._thread.join()

    def _follow(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            said = decode_struct(line.encode(), _Said, what="sound")
            self._placed[said.file] = Sound(said.file, said.sha256, said.words)
            self._another.set()


def answer_id(device: str, sound: Sound) -> str:
    """The id that the answer to a sound must have: see docs/protocol.md."""
    identity = canonical(["shoal/answer/v1", device, SOURCE, sound.item, sound.sha256])
    return hashlib.sha256(identity).hexdigest()
