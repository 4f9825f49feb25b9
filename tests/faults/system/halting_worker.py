"""The worker with an engine that halts as it loads and as it runs.

Stands where the interpreter of the engine stands: control folder, then what a front gives to an interpreter.
"""

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import onnxruntime

from tests.faults.system.halting import halt


def main(control: Path, program: str, arguments: list[str]) -> None:
    front = Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\0")
    who = "checking" if b"--check" in front else "serving"

    class HaltingSession(onnxruntime.InferenceSession):  # type: ignore[misc]
        def __init__(self, *positional: Any, **named: Any) -> None:
            halt(control, f"{who}-load")
            super().__init__(*positional, **named)

        def run(self, *positional: Any, **named: Any) -> Any:
            halt(control, f"{who}-run")
            return super().run(*positional, **named)

    onnxruntime.InferenceSession = HaltingSession
    sys.argv = [program, *arguments]
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    _, control_folder, isolated, worker, *rest = sys.argv
    assert isolated == "-I"
    main(Path(control_folder), worker, rest)
