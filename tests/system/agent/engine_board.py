"""How do tests reach the engines that are installed here, each in a worker of its own?"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from shoal_agent.front.worker import Worker, WorkerOptions
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.fetch import fetch_network
from shoal_converters.wheels import default_cache
from shoal_worker.memory import seal_bytes

ROOT = Path(__file__).resolve().parents[3]
TFLITE_PYTHON = ROOT / ".venv-tflite/bin/python"
WAIT_S = 60.0
ONE_THREAD = WorkerOptions(threads=1)

ENGINES = (
    ("onnxruntime", "onnx"),
    ("openvino", "onnx"),
    ("litert", "tflite"),
    ("openvino", "tflite"),
    ("tflite-runtime", "tflite"),
)
"""Engines and formats that can be run here."""

WINDOW = (1, 43_844, 1)  # samples of a sound, as the network takes them
SPREAD = 2e-3
"""Largest difference between engines that is no fault, of this network's outputs, which lie between 0 and 1.

The network takes logarithms of energies, so where a sound is near silence it magnifies rounding. How much was measured
without a second engine: with each sample changed by up to one rounding step (2**-23 of it), ONNX Runtime's own answers
to twelve sounds change by up to 2.5e-4. Against it, on x86-64 with AVX-512, LiteRT differs by up to 2e-6, OpenVINO by
2e-4 and tflite-runtime by 1e-3. Shorter types show as more: bfloat16 has rounding steps 65,536 times as large.
"""


def fetch_note_events() -> dict[str, bytes]:
    """The same trained network in both formats."""
    return fetch_network(default_cache())._asdict()


def first_window() -> np.ndarray:
    """The beginning of a synthesised sound."""
    pcm = np.frombuffer(play(7_000).wav[44:], "<i2").astype(np.float32) / 32768
    return np.resize(pcm, WINDOW)


def interpreters() -> Mapping[str, str]:
    """Engines with an interpreter of their own, where it was made."""
    return {"tflite-runtime": str(TFLITE_PYTHON)} if TFLITE_PYTHON.exists() else {}


def interpreter_of(engine: str) -> str:
    if engine == "tflite-runtime" and not TFLITE_PYTHON.exists():
        pytest.skip("no .venv-tflite: tflite-runtime needs Python 3.11, for which packaging/bootstrap.sh makes it")
    return interpreters().get(engine, sys.executable)


@contextlib.contextmanager
def worker_of(
    engine: str,
    *files: bytes,
    model_format: str,
    options: WorkerOptions = ONE_THREAD,
    interpreter: str | None = None,
    timeout_s: float = WAIT_S,
) -> Iterator[Worker]:
    with contextlib.ExitStack() as opened:
        fds: Sequence[int] = [seal_bytes(file) for file in files]
        for fd in fds:
            opened.callback(os.close, fd)
        worker = Worker.start(
            interpreter or interpreter_of(engine),
            engine=engine,
            model_fd=fds[0],
            options=options,
            model_format=model_format,
            more_fds=fds[1:],
            timeout_s=timeout_s,
        )
        yield opened.enter_context(worker)
