"""Does an engine work on this board?

A worker in the engine's interpreter loads a tiny model and answers once, within a time limit. Importing the library
says too little: it may fail only when a model is loaded, run on another device than was asked for, or end its process.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from shoal_wire.tuning import is_placed_on
from shoal_worker.errors import WorkerError
from shoal_worker.memory import seal_bytes

from shoal_agent.engine_table import candidates
from shoal_agent.front.probe_models import FEEDS, PROBE_MODELS, expected_sum
from shoal_agent.front.worker import Worker, WorkerOptions

PROBE_TIMEOUT_S = 60.0
"""For starting an interpreter, importing an engine and loading: seconds on a small board."""
ANSWER_DEADLINE_S = 10.0
OPTIONS = WorkerOptions(threads=1, nice=10)


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What became of one engine with one format. `reason` says in words why it isn't usable, and is empty else."""

    engine: str
    model_format: str
    interpreter: str
    is_usable: bool = False
    reason: str = ""
    version: str = ""
    placement: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    sandbox: tuple[str, ...] = ()
    sandbox_gaps: tuple[str, ...] = ()
    """What held the worker, and why something of it was missing (`shoal_worker.sandbox`)."""
    load_ms: float = 0.0
    """From the start of the interpreter to a model that can answer."""

    @property
    def other_devices(self) -> tuple[str, ...]:
        """Those that the engine lists beside where it ran."""
        return tuple(name for name in self.devices if not is_placed_on(name, placement=self.placement))


def probe_all(interpreters: Mapping[str, str], *, own: str) -> Iterator[ProbeResult]:
    """Probe every engine that the agent knows, each for every format that it is listed for and that can be probed.

    `own` is the interpreter of engines that `interpreters` doesn't name.
    """
    for candidate in candidates():
        if candidate.model_format in PROBE_MODELS:
            yield probe_engine(
                interpreters.get(candidate.engine, own), engine=candidate.engine, model_format=candidate.model_format
            )


def probe_device(found: ProbeResult, device: str) -> ProbeResult:
    """Probe an engine that was found usable on another one of its devices.

    What a library lists may be all that it was built for. In any types: a device without float32 has its use as well.
    """
    options = replace(OPTIONS, precision="fast", device=device)
    return probe_engine(found.interpreter, engine=found.engine, model_format=found.model_format, options=options)


def probe_engine(
    interpreter: str,
    *,
    engine: str,
    model_format: str,
    options: WorkerOptions = OPTIONS,
    timeout_s: float = PROBE_TIMEOUT_S,
) -> ProbeResult:
    """Probe one engine with the tiny model of a format, which must be one of PROBE_MODELS."""
    result = ProbeResult(engine=engine, model_format=model_format, interpreter=interpreter)
    started = time.monotonic()
    try:
        with _start(result, options=options, timeout_s=timeout_s) as worker:
            load_ms = (time.monotonic() - started) * 1000
            outputs = worker.run(FEEDS, deadline_s=ANSWER_DEADLINE_S)
            told = replace(
                result,
                version=worker.info.engine_version,
                placement=worker.info.placement,
                devices=worker.info.devices,
                sandbox=worker.info.sandbox,
                sandbox_gaps=worker.info.sandbox_gaps,
                load_ms=load_ms,
            )
    except WorkerError as error:
        return replace(result, reason=str(error))
    expected, found = [expected_sum().tolist()], [array.tolist() for array in outputs.values()]
    if found != expected:
        return replace(told, reason=f"expected the outputs {expected}, found {found}")
    return replace(told, is_usable=True)


@contextlib.contextmanager
def _start(result: ProbeResult, *, options: WorkerOptions, timeout_s: float) -> Iterator[Worker]:
    with contextlib.ExitStack() as opened:
        fds = []
        for part in PROBE_MODELS[result.model_format]:
            fds.append(seal_bytes(part))
            opened.callback(os.close, fds[-1])
        worker = Worker.start(
            result.interpreter,
            engine=result.engine,
            model_fd=fds[0],
            options=options,
            model_format=result.model_format,
            more_fds=fds[1:],
            timeout_s=timeout_s,
        )
        yield opened.enter_context(worker)
