"""An engine that does what its input tells it to, for tests of what a front does about it.

Installed as a plug-in under two names, `unruly` and `steady`; the second only ever doubles. A model of format `unruly`
may have any bytes but `refused`.
"""

import ctypes
import resource
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shoal_worker.errors import ModelRefused
from shoal_worker.messages import Load, TensorSpec

FORMATS = {"unruly": 1}
DOUBLE, SEGFAULT, ILLEGAL, HANG, LEAK, EXHAUST, WAIT = range(7)
LEAK_BYTES = 120 << 20
EXHAUST_BYTES = 64 << 20
WAIT_S = 0.05


class UnrulyEngine:
    version = "1"
    placement = ("cpu",)
    devices = ("cpu",)
    plan = None
    inputs = (TensorSpec("order", "int64", (1,)), TensorSpec("x", "float32", (None,)))
    outputs = (TensorSpec("y", "float32", (None,)),)

    def __init__(self, *, is_steady: bool) -> None:
        self.is_steady = is_steady
        self.leaked: list[Any] = []

    def prepare(self, feeds: Mapping[str, Any]) -> "UnrulyInference":
        return UnrulyInference(self, int(feeds["order"][0]), feeds["x"].copy())


class UnrulyInference:
    def __init__(self, engine: UnrulyEngine, order: int, x: Any) -> None:
        self.engine = engine
        self.order = DOUBLE if engine.is_steady else order
        self.x = x

    def run(self) -> dict[str, Any]:
        if self.order == SEGFAULT:
            ctypes.string_at(0)
        elif self.order == ILLEGAL:
            signal.raise_signal(signal.SIGILL)  # to this very thread: nothing is answered after it
        elif self.order == HANG:
            time.sleep(3600)
        elif self.order == LEAK:
            self.engine.leaked.append(np.ones(LEAK_BYTES, np.uint8))
        elif self.order == EXHAUST:
            held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + EXHAUST_BYTES,) * 2)
            self.engine.leaked.append(np.ones(2 * EXHAUST_BYTES, np.uint8))
        elif self.order == WAIT:
            time.sleep(WAIT_S)
        return {"y": 2 * self.x}

    def cancel(self) -> None:
        """It never listens."""


def load(request: Load, *, files: Sequence[bytes]) -> UnrulyEngine:
    if files[0] == b"refused":
        raise ModelRefused(f"{request.engine} in {sys.executable} doesn't take it")
    return UnrulyEngine(is_steady=request.engine == "steady")
