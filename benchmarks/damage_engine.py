"""How does a benchmark run thousands of damaged models in an engine, some of which kill or stop it?"""

import io
import json
import math
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from shoal_agent.front.operations.values import Tensors
from shoal_worker.channel import Channel
from shoal_worker.memory import seal_bytes

RUNNER = Path(__file__).with_name("damage_runner.py")
LIMIT_S = 30
"""Of processor time for a model: loading and all items."""
WAIT_S = 600.0

Item = Sequence[Tensors]
"""Inputs of one or more inferences that follow one another."""


class Tried(NamedTuple):
    """What became of a model, see `damage_runner`, and the outputs of each item that it got to."""

    end: str
    answers: list[list[Tensors]]


class DamageEngine:
    """An engine in its interpreter, which tries one model after the other."""

    def __init__(self, channel: Channel, process: subprocess.Popen[bytes], *, steps: Sequence[int]) -> None:
        """Use `start`."""
        self._channel = channel
        self._process = process
        self._steps = steps

    @classmethod
    def start(
        cls,
        interpreter: str,
        *,
        engine: str,
        model_format: str,
        items: Sequence[Item],
        carry: Mapping[str, str],
    ) -> Self:
        """`carry`: by output, the input of the next step of an item that it becomes."""
        ours, theirs = socket.socketpair()
        process = subprocess.Popen([interpreter, "-I", str(RUNNER), str(theirs.fileno())], pass_fds=[theirs.fileno()])
        theirs.close()
        channel = Channel(ours)
        packed = seal_bytes(pack_items(items))
        setting: dict[str, Any] = {"engine": engine, "format": model_format, "limit_s": LIMIT_S, "carry": dict(carry)}
        channel.send(setting, fds=[packed])
        os.close(packed)
        return cls(channel, process, steps=[len(item) for item in items])

    def try_model(self, files: Sequence[bytes]) -> Tried:
        """Load a model of these files and run all items."""
        fds = [seal_bytes(file) for file in files]
        self._channel.send({}, fds=fds)
        for fd in fds:
            os.close(fd)
        reply, (results,) = self._channel.receive(WAIT_S)
        with os.fdopen(results, "rb") as file:
            outputs = _read_outputs(os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0))
        answers = []
        for steps in self._steps:
            if len(outputs) >= steps:
                answers.append([outputs.pop(0) for _ in range(steps)])
        return Tried(str(reply["end"]), answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._process.wait()


def pack_items(items: Sequence[Item]) -> bytes:
    """All inputs in one file, each named for its item, its step and itself."""
    named = {
        f"{number}|{step}|{name}": array
        for number, item in enumerate(items)
        for step, feeds in enumerate(item)
        for name, array in feeds.items()
    }
    buffer = io.BytesIO()
    np.savez(buffer, **named)  # type: ignore[arg-type]
    return buffer.getvalue()


def _read_outputs(raw: bytes) -> list[Tensors]:
    """Of each inference whose outputs were written whole; see `damage_runner.save`."""
    inferences, at = [], 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "big")
        outputs: Tensors = {}
        try:
            for name, dtype, shape in json.loads(raw[at + 4 : end]):
                size = math.prod(shape)
                outputs[name] = np.frombuffer(raw, dtype, count=size, offset=end).reshape(shape)
                end += outputs[name].nbytes
        except ValueError:  # cut off: its process died while it wrote
            break
        inferences.append(outputs)
        at = end
    return inferences
