"""The updater on a disk that halts at the journal's writes. Arguments: control folder, then those of the updater."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from shoal_agent.files import DiskFiles
from shoal_agent.slots import JOURNAL, Journal
from shoal_agent.updater.__main__ import DONE, FAILED, TRY_LATER, read_board
from shoal_agent.updater.errors import BrokenInstallation, TryLater
from shoal_agent.updater.fetch import Patience
from shoal_agent.updater.run import refresh, run
from shoal_agent.updater.tools import make_tools
from shoal_worker.channel import Channel, ChannelError
from shoal_worker.process import die_with_parent

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


def main(control: str, arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--parent", type=int, default=os.getppid())
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("--formats", nargs="*", default=[])
    options = parser.parse_args(arguments)
    die_with_parent(options.parent)
    channel = Channel.from_fd(options.fd)
    try:
        channel.greet(role="updater")
        files, board = HaltingFiles(Path(control)), read_board(options.formats)
        tools = make_tools(options.state, files=files, channel=channel, board=board, patience=Patience())
        (refresh if options.refresh else run)(tools)
    except TryLater:
        return TRY_LATER
    except (BrokenInstallation, ChannelError):
        return FAILED
    finally:
        channel.close()
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
