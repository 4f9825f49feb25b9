"""Which sounds were given to the board, and which answer must each of them have?"""

import hashlib
import json
import threading
from collections.abc import Mapping
from subprocess import Popen
from types import MappingProxyType
from typing import NamedTuple

from shoal_wire.encoding import canonical

SOURCE = "sounds"


class Sound(NamedTuple):
    """A sound that was placed in the board's folder."""

    item: str
    sha256: str
    played: str
    """The score in words."""


class Sounds:
    """Follows the program that places sounds, which says each of them in a line of JSON."""

    def __init__(self, program: Popen[str]) -> None:
        self._program = program
        self._placed: dict[str, Sound] = {}
        self._thread = threading.Thread(target=self._follow, name="sounds", daemon=True)
        self._thread.start()

    def placed(self) -> Mapping[str, Sound]:
        """All sounds so far, by file name; grows while sounds are placed."""
        return MappingProxyType(self._placed)

    def stop(self) -> None:
        """Place no more."""
        self._program.terminate()
        self._program.wait()
        self._thread.join()

    def _follow(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            said = json.loads(line)
            self._placed[said["file"]] = Sound(said["file"], said["sha256"], said["words"])


def answer_id(device: str, sound: Sound) -> str:
    """The id that the answer to a sound must have: see docs/protocol.md."""
    identity = canonical(["shoal/answer/v1", device, SOURCE, sound.item, sound.sha256])
    return hashlib.sha256(identity).hexdigest()
