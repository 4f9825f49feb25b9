"""Does an engine that is installed here run a model? Each in a worker, a process of its own, as on a board."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from shoal_agent.engine_table import LIBRARIES, candidates, present
from shoal_agent.front.worker import Worker, WorkerOptions
from shoal_agent.front.worker_process import WorkerLost
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_chunks
from shoal_worker.messages import TensorSpec

from shoal_converters.errors import BadModel
from shoal_converters.inspection.facts import EngineRun, Facts

Array = NDArray[Any]

DEADLINE_S = 60.0
"""For one inference."""
FREE_LENGTHS = (1, 64, 640)
"""Of axes that may have any length, tried one after the other; the first axis, a batch, always has 1."""
NOT_INSTALLED = "not installed here"
MAX_INPUT_VALUES = 100_000_000
CHUNK_BYTES = 1 << 20
EXTRAS: Mapping[str, str] = {"onnxruntime": "onnxruntime", "litert": "litert", "openvino": "openvino"}
"""Extras of shoal-agent that install an engine."""


def list_files(path: Path, facts: Facts) -> tuple[Path, ...]:
    """The files of a model as a release has them: the model first.

    Raises:
        BadModel: one of them is missing.
    """
    files = (path, path.with_suffix(".bin")) if facts.format == "openvino" and facts.external_files else (path,)
    for file in files:
        if not file.is_file():
            raise BadModel(f"{file}: missing; it belongs to {path.name}")
    return files


@contextlib.contextmanager
def open_worker(
    files: Sequence[Path | bytes], *, engine: str, model_format: str, precision: str = "exact"
) -> Iterator[Worker]:
    """A worker with one thread that has loaded a model, for as long as the block lasts. Files may be given as bytes.

    Raises:
        WorkerError: no such engine here, or it doesn't take the model.
        BadModel: a file can't be read.
    """
    with contextlib.ExitStack() as opened:
        fds = []
        for file in files:
            fds.append(seal_chunks([file] if isinstance(file, bytes) else _read_chunks(file)))
            opened.callback(os.close, fds[-1])
        if model_format == "openvino" and len(fds) == 1:  # a model without weights
            fds.append(seal_chunks([]))
            opened.callback(os.close, fds[-1])
        worker = Worker.start(
            sys.executable,
            engine=engine,
            model_fd=fds[0],
            more_fds=fds[1:],
            model_format=model_format,
            options=WorkerOptions(threads=1, precision=precision),
        )
        yield opened.enter_context(worker)


def try_engines(path: Path, facts: Facts) -> tuple[EngineRun, ...]:
    """Try every engine that reads the format: load, and answer zeros once.

    An engine that isn't installed here is named, with what installs it.
    """
    wanted = [candidate.engine for candidate in candidates() if candidate.model_format == facts.format]
    here = {candidate.engine for candidate in present(interpreters={}) if candidate.model_format == facts.format}
    return tuple(_try(path, facts, engine) if engine in here else _missing(engine) for engine in wanted)


def make_zeros(inputs: Sequence[TensorSpec], *, free_length: int) -> dict[str, Array]:
    """Zeros for each input. Axes of any length have `free_length`, but for the first, which has 1.

    Raises:
        BadModel: an input is too large to be tried.
    """
    feeds = {}
    for spec in inputs:
        lengths = [1 if number == 0 else free_length for number in range(len(spec.shape))]
        shape = tuple(free if length is None else length for length, free in zip(spec.shape, lengths, strict=True))
        if math.prod(shape) > MAX_INPUT_VALUES:
            raise BadModel(f"input {spec.name!r} has {math.prod(shape)} values, at most {MAX_INPUT_VALUES} are tried")
        feeds[spec.name] = np.zeros(shape, np.dtype(spec.dtype))
    return feeds


def _try(path: Path, facts: Facts, engine: str) -> EngineRun:
    started = time.monotonic()
    try:
        with open_worker(list_files(path, facts), engine=engine, model_format=facts.format) as worker:
            load_ms = round((time.monotonic() - started) * 1000, 1)
            loaded = EngineRun(engine=engine, version=worker.info.engine_version, loads=True, load_ms=load_ms)
            return _answer(worker, loaded)
    except (WorkerError, BadModel) as error:
        return EngineRun(engine=engine, reason=str(error))


def _answer(worker: Worker, loaded: EngineRun) -> EngineRun:
    has_free = any(None in spec.shape[1:] for spec in worker.info.inputs)
    lengths = FREE_LENGTHS if has_free else FREE_LENGTHS[:1]
    reason = ""
    for free_length in lengths:
        began = time.monotonic()
        try:
            worker.run(make_zeros(worker.info.inputs, free_length=free_length), deadline_s=DEADLINE_S)
            run_ms = round((time.monotonic() - began) * 1000, 1)
            return msgspec.structs.replace(loaded, answers=True, run_ms=run_ms)
        except WorkerLost as error:
            return msgspec.structs.replace(loaded, loads=False, reason=str(error))
        except (WorkerError, BadModel) as error:
            reason = reason or str(error)
    tried = f", with free axes of {', '.join(map(str, lengths))}" if has_free else ""
    return msgspec.structs.replace(loaded, reason=f"loaded, but zeros got no answer{tried}: {reason}")


def _missing(engine: str) -> EngineRun:
    extra = EXTRAS.get(engine)
    how = f"pip install 'shoal-agent[{extra}]'" if extra else f"module {LIBRARIES.get(engine, engine)}"
    return EngineRun(engine=engine, reason=f"{NOT_INSTALLED} ({how})")


def _read_chunks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
    except OSError as error:
        raise BadModel(f"{path}: {error.strerror or error}") from None
