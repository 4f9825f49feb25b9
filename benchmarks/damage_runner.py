"""What does an engine answer when its model may be damaged? The other end of `damage_engine.py`, in its interpreter.

The engine is imported once. Each model is loaded and run in a process forked from here, so that what one model does to
its process (a crash, memory written over, a loop without end) is seen at that model and at no other. Python 3.9 syntax,
NumPy of any version.

A model ends as "answered", "refused" (by the engine), "unfit" (loaded, but with other inputs or outputs, or it can't
run), "hung", or "died of" something.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import resource
import select
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "agent" / "src"))

import numpy as np
from shoal_worker.channel import Channel, ChannelClosed
from shoal_worker.engines import ENGINES, load_engine
from shoal_worker.errors import BadTensor, EngineFailed, EngineMissing, ModelRefused
from shoal_worker.memory import read_sealed
from shoal_worker.messages import Load

ANSWERED, REFUSED, UNFIT = 0, 3, 4
ENDS = {ANSWERED: "answered", REFUSED: "refused", UNFIT: "unfit"}
"""By code that a forked process ends with."""
MEMORY_BYTES = 16 << 30
"""Of address space: a size that was damaged asks for more."""


def main() -> int:
    """Answer until the channel ends."""
    channel = Channel.from_fd(int(sys.argv[1]))
    started, fds = channel.receive(None)
    setting: dict[str, Any] = dict(started)
    items = read_items(fds[0])
    os.close(fds[0])
    importlib.import_module("shoal_worker.engines." + ENGINES[setting["engine"]])
    devnull = os.open(os.devnull, os.O_WRONLY)
    while True:
        try:
            _, fds = channel.receive(None)
        except ChannelClosed:
            return 0
        results = os.memfd_create("answers")
        pid = os.fork()
        if pid == 0:
            os.dup2(devnull, 1)
            os.dup2(devnull, 2)
            os._exit(answer(setting, [read_sealed(fd) for fd in fds], items=items, results=results))
        channel.send({"end": await_end(pid, limit_s=setting["limit_s"])}, fds=[results])
        for fd in (*fds, results):
            os.close(fd)


def read_items(fd: int) -> list[Any]:
    """Items as `damage_engine.pack_items` packs them."""
    with np.load(io.BytesIO(read_sealed(fd))) as arrays:
        items: list[Any] = []
        for key in arrays.files:
            number, step, name = key.split("|", 2)
            while len(items) <= int(number):
                items.append([])
            while len(items[int(number)]) <= int(step):
                items[int(number)].append({})
            items[int(number)][int(step)][name] = arrays[key]
    return items


def answer(setting: Any, files: list[bytes], *, items: list[Any], results: int) -> int:
    """Load a model and run the items; the code to end with. Answers go to `results` as they come."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (int(setting["limit_s"]), int(setting["limit_s"]) + 1))
    request = Load(
        engine=setting["engine"],
        format=setting["format"],
        threads=1,
        precision="exact",
        memory_arena=True,
        device="",
    )
    try:
        engine = load_engine(request, files=files)
    except (ModelRefused, EngineMissing, MemoryError):
        return REFUSED
    with os.fdopen(results, "wb", closefd=False) as out:
        try:
            for steps in items:
                carried: dict[str, Any] = {}
                for feeds in steps:
                    outputs = engine.prepare({**feeds, **carried}).run()
                    carried = {into: outputs[name] for name, into in setting["carry"].items()}
                    save(out, outputs)
        except (BadTensor, EngineFailed, KeyError, MemoryError):
            return UNFIT
    return ANSWERED


def save(out: Any, outputs: Any) -> None:
    """One inference's outputs: the size of a header in JSON, the header, and the arrays."""
    arrays = {name: np.ascontiguousarray(array) for name, array in outputs.items()}
    header = json.dumps([[name, array.dtype.str, array.shape] for name, array in arrays.items()]).encode()
    out.write(b"".join([len(header).to_bytes(4, "big"), header, *(array.tobytes() for array in arrays.values())]))
    out.flush()


def await_end(pid: int, *, limit_s: float) -> str:
    """How it ended. Busy machines get four times the limit of processor time."""
    watched = os.pidfd_open(pid)
    try:
        is_late = not select.select([watched], [], [], 4 * limit_s)[0]
    finally:
        os.close(watched)
    if is_late:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if is_late or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
        return "hung"
    if os.WIFSIGNALED(status):
        return "died of " + signal.Signals(os.WTERMSIG(status)).name
    return ENDS.get(os.WEXITSTATUS(status), "died of an error")


if __name__ == "__main__":
    sys.exit(main())
