"""The updater on a disk that halts at the journal's writes. Arguments: control folder, then those of the updater."""

import sys
from pathlib import Path

import msgspec
from shoal_agent.files import DiskFiles
from shoal_agent.slots import JOURNAL, Journal
from shoal_agent.updater.__main__ import main

from tests.faults.system.halting import halt


class HaltingFiles(DiskFiles):
    """The real disk, with places to halt at."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def write(self, path: Path, data: bytes) -> None:
        if path.name != JOURNAL:
            super().write(path, data)
            return
        before, after = _state(path.read_bytes() if path.exists() else b""), _state(data)
        halt(self._control, f"before-{before}-{after}")
        super().write(path, data)
        halt(self._control, f"after-{before}-{after}")
        if before != after:
            halt(self._control, f"enter-{after}")

    def append(self, path: Path, data: bytes, *, at: int) -> None:
        halt(self._control, "append")
        super().append(path, data, at=at)


def _state(raw: bytes) -> str:
    return msgspec.json.decode(raw, type=Journal).state.value if raw else "nothing"


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:], files=HaltingFiles(Path(sys.argv[1]))))
