"""The worker with an engine that halts as it loads and as it runs.

Stands where the interpreter of the engine stands: control folder, then what a front gives to an interpreter. A worker
has nowhere to write, so a companion in a session of its own, which was there before the worker shut itself in, says on
its behalf where it halts.
"""

import contextlib
import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnxruntime

from tests.faults.system.halting import halt


def start_companion(control: Path) -> Callable[[str], None]:
    """Returns what halts at a place."""
    asked, answered = os.pipe(), os.pipe()
    worker = os.getpid()
    if os.fork() == 0:
        os.setsid()
        for fd in set(map(int, os.listdir("/proc/self/fd"))) - {0, 1, 2, asked[0], answered[1]}:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(fd)
        while place := os.read(asked[0], 256).decode():
            halt(control, place, pid=worker)
            os.write(answered[1], b".")
        os._exit(0)
    os.close(asked[0])

    def halt_at(place: str) -> None:
        os.write(asked[1], place.encode())
        os.read(answered[0], 1)

    return halt_at


def main(control: Path, program: str, arguments: list[str]) -> None:
    front = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
    who = "checking" if b"--check" in front else "serving"
    halt_at = start_companion(control)

    class HaltingSession(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, *positional: Any, **named: Any) -> None:
            halt_at(f"{who}-load")
            super().__init__(*positional, **named)

        def run(self, *positional: Any, **named: Any) -> Any:
            halt_at(f"{who}-run")
            return super().run(*positional, **named)

    onnxruntime.InferenceSession = HaltingSession
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    _, control_folder, isolated, worker, *rest = sys.argv
    assert isolated == "-I"
    main(Path(control_folder), worker, rest)
