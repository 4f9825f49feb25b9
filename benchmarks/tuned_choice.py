"""How good is what tuning chooses, beside a search that measures everything, and beside what people do without it?

For each model one grid of engines, precisions and threads. Tuning gets a time budget; then every candidate of the grid
is measured in many interleaved rounds, whose medians are the truth. A ratio is the best candidate's p50 latency divided
by that of the one chosen: 1 is perfect. The same for rules that don't measure:

- always-onnxruntime, always-litert: that engine with as many threads as there are, where a variant allows it
- static-order: the first engine that the agent's table names, with as many threads as there are

Run by hand: `python -m benchmarks.tuned_choice [--models note-events …] [--threads 1,2] [--budget-s 30] [--json]`
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata

from shoal_agent.engine_table import engines_for
from shoal_agent.tuned import Limits
from shoal_agent.tuning.bench import Bench, CandidateFailed, LoadedFiles
from shoal_agent.tuning.grid import FASTER
from shoal_agent.tuning.meters import NoMeter
from shoal_agent.tuning.rules import choose, pair
from shoal_agent.tuning.search import Goal, search
from shoal_converters.note_events.fetch import default_cache, fetch_model
from shoal_wire.tuning import Candidate
from shoal_worker.memory import seal_bytes

from benchmarks.real_models import MODELS, RealModel, TensorTask

TURN_S = 0.3
DEADLINE_S = 30.0


def main() -> None:
    """Measure and print."""
    options = _parse_arguments()
    names = options.models or list(MODELS)
    results = []
    for name in names:
        result = {"model": name, **measure(MODELS[name], options)}
        results.append(result)
        print(json.dumps(result) if options.json else _lines(result), flush=True)
    summary = _summarise(results)
    print(json.dumps(summary) if options.json else "\n".join(f"{key:24}{value}" for key, value in summary.items()))


def measure(model: RealModel, options: argparse.Namespace) -> dict[str, object]:
    """Tune one model, search its grid, and compare."""
    grid = list_grid(model, threads=options.threads)
    with _bench(model) as bench:
        found = search(grid, bench, goal=Goal("latency", Limits(), options.budget_s))
        finalists = [one for one in found.measured if one.is_finalist]
        chosen = choose(finalists, objective="latency", limits=Limits()).candidate
    assert chosen is not None
    with _bench(model) as bench:
        truth = search_exhaustively(bench, grid, rounds=options.rounds)
    best = min(truth, key=lambda candidate: truth[candidate])
    picks = {"tuned": chosen, **static_picks(model, truth, threads=max(options.threads))}
    return {
        "candidates": len(grid),
        "right": len(truth),
        "refused": {str(one.candidate): one.reason for one in found.refused},
        "best": str(best),
        "best_ms": round(truth[best], 3),
        "picks": {name: str(pick) for name, pick in picks.items()},
        "ratios": {name: round(truth[best] / truth[pick], 4) for name, pick in picks.items()},
        "is_settled": found.is_settled,
        "budget_s": options.budget_s,
        "grid_ms": {str(candidate): round(value, 3) for candidate, value in truth.items()},
    }


def list_grid(model: RealModel, *, threads: Sequence[int]) -> list[Candidate]:
    """Every engine here for every variant, in every precision that makes a difference, with these threads."""
    return [
        Candidate(variant=variant, engine=engine, precision=precision, threads=count)
        for variant, file in model.variants.items()
        for engine in engines_for(file.model_format, interpreters={})
        for precision in (("exact", "fast") if platform.machine() in FASTER.get(engine, ()) else ("exact",))
        for count in threads
    ]


def search_exhaustively(bench: Bench, grid: Sequence[Candidate], *, rounds: int) -> dict[Candidate, float]:
    """Each right candidate's latency in ms: its median over all rounds, relative to the others of the same round.

    The scale is that of the median round.
    """
    right = []
    for candidate in grid:
        with contextlib.suppress(CandidateFailed):
            bench.check(candidate, timeout_s=DEADLINE_S)
            right.append(candidate)
    values: dict[Candidate, list[float]] = {candidate: [] for candidate in right}
    for number in range(rounds):
        for candidate in right if number % 2 == 0 else reversed(right):
            turn = bench.turn(candidate, seconds=TURN_S, with_rate=False)
            values[candidate].append(statistics.median(turn.latencies_ms))
    scale = statistics.median(statistics.geometric_mean(one) for one in zip(*values.values(), strict=True))
    return {candidate: statistics.median(relative) * scale for candidate, relative in pair(values).items()}


def static_picks(model: RealModel, truth: Mapping[Candidate, float], *, threads: int) -> dict[str, Candidate]:
    """What rules that don't measure would take, where that is among the candidates that answer right."""
    picks: dict[str, Candidate] = {}
    wanted = [("always-onnxruntime", "onnxruntime"), ("always-litert", "litert")]
    first = next(iter(model.variants.values()))
    wanted.append(("static-order", engines_for(first.model_format, interpreters={})[0]))
    for name, engine in wanted:
        for candidate in truth:
            if (candidate.engine, candidate.precision, candidate.threads) == (engine, "exact", threads):
                picks.setdefault(name, candidate)
    return picks


@contextlib.contextmanager
def _bench(model: RealModel) -> Iterator[Bench]:
    with contextlib.ExitStack() as opened:
        variants = {}
        for name, file in model.variants.items():
            content = fetch_model(default_cache(), model=file.source).read_bytes()
            fd = seal_bytes(content)
            opened.callback(os.close, fd)
            variants[name] = LoadedFiles(model_format=file.model_format, fds=(fd,), size_bytes=(len(content),))
        bench = Bench(
            variants,
            task=TensorTask(model),
            interpreters={},
            own=sys.executable,
            deadline_s=DEADLINE_S,
            meter=NoMeter(),
        )
        yield opened.enter_context(contextlib.closing(bench))


def _summarise(results: Sequence[dict[str, object]]) -> dict[str, object]:
    ratios: dict[str, list[float]] = {}
    for result in results:
        found = result["ratios"]
        assert isinstance(found, dict)
        for name, ratio in found.items():
            ratios.setdefault(name, []).append(ratio)
    summary: dict[str, object] = {"models": len(results)}
    for name, values in ratios.items():
        summary[name] = (
            f"geometric mean {statistics.geometric_mean(values):.3f}, least {min(values):.3f}, n {len(values)}"
        )
    versions = ("onnxruntime", "openvino", "ai-edge-litert")
    summary["engines"] = ", ".join(f"{name} {metadata.version(name)}" for name in versions)
    return summary


def _lines(result: Mapping[str, object]) -> str:
    shown = ("candidates", "right", "best", "best_ms", "picks", "ratios", "is_settled")
    return "\n".join([f"{result['model']}", *(f"  {key:12}{result[key]}" for key in shown)])


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tuning's choice beside an exhaustive search over the same grid.")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), help="(default: all)")
    parser.add_argument(
        "--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2], help="(default: 1,2)"
    )
    parser.add_argument("--budget-s", type=float, default=30.0, help="for tuning (default: %(default)g)")
    parser.add_argument("--rounds", type=int, default=9, help="of the exhaustive search (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser.parse_args()


if __name__ == "__main__":
    main()
