"""What does a worker process cost, beside the bare engine in this process?

    python benchmarks/worker_overhead.py --model model.onnx [--threads 1] [--rounds 20] [--runs 20] [--json]

Both sides load the same model with the same session options and run the same input, one after the other in
short rounds, so that a machine that gets slower or busier does so for both. The ratio is what to read, not
the speeds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from shoal_agent.front.worker import Worker, WorkerOptions
from shoal_worker.engines import load_engine
from shoal_worker.memory import seal_bytes
from shoal_worker.messages import Load, TensorSpec

ENGINE = "onnxruntime"
DEADLINE_S = 60.0

Feeds = dict[str, npt.NDArray[np.generic]]


class Overhead(NamedTuple):
    """Seconds per run on both sides, and the ratio of answers per second round by round."""

    bare_s: list[float]
    worker_s: list[float]
    ratios: list[float]


def main() -> None:
    options = _parse_arguments()
    model = options.model.read_bytes()
    request = Load(
        engine=ENGINE, format="onnx", threads=options.threads, precision="exact", memory_arena=True, device=""
    )
    engine = load_engine(request, files=[model])
    feeds = make_feeds(engine.inputs)
    with Worker.start(
        sys.executable, engine=ENGINE, model_fd=seal_bytes(model), options=WorkerOptions(threads=options.threads)
    ) as worker:
        overhead = measure(
            bare=lambda: engine.prepare(feeds).run(),
            through_worker=lambda: worker.run(feeds, deadline_s=DEADLINE_S),
            rounds=options.rounds,
            runs=options.runs,
        )
    report(overhead, as_json=options.json)


def make_feeds(inputs: Sequence[TensorSpec]) -> Feeds:
    """Noise of the right types and shapes, the same at every call; a length that varies is 1."""
    noise = np.random.default_rng(1)
    return {
        spec.name: noise.uniform(-1, 1, [length or 1 for length in spec.shape]).astype(spec.dtype) for spec in inputs
    }


def measure(*, bare: Callable[[], object], through_worker: Callable[[], object], rounds: int, runs: int) -> Overhead:
    """Warm both up, then take turns; which of them begins a round changes too."""
    bare()
    through_worker()
    overhead = Overhead([], [], [])
    for number in range(rounds):
        if number % 2:
            worker_s, bare_s = _time_runs(through_worker, runs=runs), _time_runs(bare, runs=runs)
        else:
            bare_s, worker_s = _time_runs(bare, runs=runs), _time_runs(through_worker, runs=runs)
        overhead.bare_s.extend(bare_s)
        overhead.worker_s.extend(worker_s)
        overhead.ratios.append(sum(bare_s) / sum(worker_s))
    return overhead


def report(overhead: Overhead, *, as_json: bool) -> None:
    bare_ms, worker_ms = (statistics.median(side) * 1000 for side in (overhead.bare_s, overhead.worker_s))
    quarters = statistics.quantiles(overhead.ratios, n=4)
    evidence = {
        "bare_answers_per_s": round(len(overhead.bare_s) / sum(overhead.bare_s), 2),
        "worker_answers_per_s": round(len(overhead.worker_s) / sum(overhead.worker_s), 2),
        "ratio_median": round(quarters[1], 4),
        "ratio_quartiles": [round(quarters[0], 4), round(quarters[2], 4)],
        "bare_median_ms": round(bare_ms, 3),
        "worker_median_ms": round(worker_ms, 3),
        "cost_median_ms": round(worker_ms - bare_ms, 3),
        "rounds": len(overhead.ratios),
    }
    if as_json:
        print(json.dumps(evidence))
        return
    for name, value in evidence.items():
        print(f"{name:22}{value}")


def _time_runs(run: Callable[[], object], *, runs: int) -> list[float]:
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return seconds


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Answers per second through a worker beside the bare engine.")
    parser.add_argument("--model", type=Path, required=True, help="an ONNX model")
    parser.add_argument("--threads", type=int, default=1, help="of the engine, on both sides")
    parser.add_argument("--rounds", type=int, default=20, help="how often both take their turn, 2 or more")
    parser.add_argument("--runs", type=int, default=20, help="runs in one turn")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


if __name__ == "__main__":
    main()
