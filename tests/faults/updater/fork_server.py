"""How does a test start many updaters quickly, each a process of its own that can really be killed?

This program has imported the updater and has no threads; it forks itself for each. It is the composition root of the
fault tests: the product's parts on a disk that kills.

`python -m tests.faults.updater.fork_server FD`
"""

import errno
import os
import sys
import traceback
from pathlib import Path

import msgspec
from shoal_agent.own_trees import Launch
from shoal_agent.updater.errors import TryLater
from shoal_agent.updater.fetch import Patience
from shoal_agent.updater.planning import Board
from shoal_agent.updater.run import run
from shoal_agent.updater.tools import make_tools
from shoal_worker.channel import Channel, ChannelClosed

from tests.faults.updater.killing_files import Damage, Kill, KillingFiles

BOARD = Board(engines={"onnx": ("onnxruntime",)}, architecture="x86_64", memory_bytes=1 << 30, agent_version="0.1.0")
PATIENCE = Patience(tries=2, first_pause_s=0.01)


class Start(msgspec.Struct, frozen=True):
    """One start of the updater. The socket to its daemon travels with the request."""

    state: str
    kill: Kill | None = None
    damage: Damage | None = None
    free_bytes: int | None = None
    """What the disk says is free; None for the truth."""
    all_variants: bool = False
    """Whether the board fetches what tuning can choose from."""
    trees: str = ""
    """Folder of the agent's own trees; empty where no package installed it."""
    tree: str = ""
    """That runs."""
    fills_up: bool = False
    """Whether something else takes the room on the disk as soon as files come."""


class Ended(msgspec.Struct, frozen=True):
    """Exit code, or minus the number of the signal; durable operations; what was written to standard error."""

    code: int
    operations: int
    error: str


class FullFiles(KillingFiles):
    """A disk with so much room left."""

    def __init__(self, start: Start) -> None:
        super().__init__(kill=start.kill, damage=start.damage)
        self._free_bytes = start.free_bytes
        self._fills_up = start.fills_up

    def free_bytes(self, folder: Path) -> int:
        return super().free_bytes(folder) if self._free_bytes is None else self._free_bytes

    def append(self, path: Path, data: bytes, *, at: int) -> None:
        if self._fills_up:
            self._free_bytes = 0
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().append(path, data, at=at)


def main(descriptor: int) -> None:
    requests = Channel.from_fd(descriptor)
    while True:
        try:
            message, (socket,) = requests.receive(None)
        except ChannelClosed:
            return
        requests.send(msgspec.to_builtins(_run(msgspec.convert(message, Start), socket)))


def _run(start: Start, socket: int) -> Ended:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _update(start, socket, writing)
    os.close(socket)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    operations, _, error = said.partition("\n")
    return Ended(os.waitstatus_to_exitcode(status), int(operations or 0), error)


def _update(start: Start, socket: int, writing: int) -> None:
    """In the child; never returns."""
    code, error = 1, ""
    board = BOARD._replace(all_variants=start.all_variants)
    files = FullFiles(start)
    launch = Launch(Path(start.trees), start.tree, "0.1.0") if start.trees else Launch()
    try:
        channel = Channel.from_fd(socket)
        channel.greet(role="updater")
        run(make_tools(Path(start.state), files=files, channel=channel, board=board, launch=launch, patience=PATIENCE))
        code = 0
    except TryLater:
        code = 75
    except BaseException:
        error = traceback.format_exc()
    os.write(writing, f"{files.operations}\n{error}".encode()[:60_000])
    os._exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]))
