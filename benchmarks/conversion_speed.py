"""How fast is each variant of a release by itself: one inference, without what comes before and after it?

In this process, by the agent's own engines with one thread, computing exactly. What passes between processes is left
out, so that of a network that takes microseconds nothing but the network is measured. All variants have a turn in every
round, so that a ratio compares neighbours in time.
"""

import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from shoal_agent.front.bindings import Bindings
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.evaluation import USUAL_ENGINES
from shoal_converters.inspection.inspecting import load_draft
from shoal_converters.paths import FULL_PRECISION
from shoal_worker.engines import load_engine
from shoal_worker.errors import WorkerError
from shoal_worker.messages import Load

ROUNDS = 15
TURN_S = 0.04
"""Of a variant in a round; one inference at least."""

Run = Callable[[], object]


def measure_inference_ratios(folder: Path) -> dict[str, float]:
    """How many times as fast as the full-precision one of its format each other released variant is, in one engine.

    The input is that of the first golden case's first call. Variants that the usual engine of their format doesn't take
    aren't there.
    """
    (model,) = load_draft(folder).models
    paths = {file.name: folder / file.path for file in load_draft(folder).files}
    pipeline = Pipeline(pre=model.pre, post=model.post)
    feeds = pipeline.prepare(paths[model.golden[0].file].read_bytes()).calls[0]
    runs: dict[str, Run] = {}
    formats = {}
    for variant in model.variants:
        if variant.format not in USUAL_ENGINES:
            continue
        request = Load(
            engine=USUAL_ENGINES[variant.format],
            format=variant.format,
            threads=1,
            precision="exact",
            memory_arena=True,
            device="",
        )
        bindings = Bindings(variant.bindings, inputs=model.inputs, outputs=model.outputs)
        try:
            engine = load_engine(request, files=[paths[name].read_bytes() for name in variant.files])
            run = engine.prepare(bindings.to_file(feeds)).run
            run()
        except WorkerError:
            continue
        runs[variant.name], formats[variant.name] = run, variant.format
    full = {formats[name]: name for name in runs if name in FULL_PRECISION}
    medians = _time_rounds(runs)
    return {
        name: statistics.median(
            theirs / mine for theirs, mine in zip(medians[full[formats[name]]], medians[name], strict=True)
        )
        for name in runs
        if formats[name] in full and name not in FULL_PRECISION
    }


def _time_rounds(runs: Mapping[str, Run]) -> dict[str, list[float]]:
    """Median seconds of an inference in each round."""
    medians: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(ROUNDS):
        names = list(runs) if number % 2 == 0 else list(runs)[::-1]
        for name in names:
            medians[name].append(_time_turn(runs[name]))
    return medians


def _time_turn(run: Run) -> float:
    times: list[float] = []
    while sum(times) < TURN_S:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
