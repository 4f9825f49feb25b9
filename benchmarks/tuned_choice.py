"""How good is what tuning chooses, beside a search that measures everything, and beside what people do without it?

For each model one grid of engines, precisions and threads. Tuning gets its time budget; then fresh workers of every
candidate are measured in many interleaved rounds: that is the truth. A ratio is the best candidate's latency divided by
that of the one chosen: 1 is perfect. It is given for p50, and for the lower quartile ("calm"), which other work on the
machine disturbs less.

`repeatability` is the ratio that the exhaustive search itself reaches: its choice by every other round, judged by the
rounds between. A ratio can't be told from 1 where it isn't below that.

Rules that don't measure (`RULES`) have the same grid, with as many threads as there are:

- always-onnxruntime, always-litert: that engine, where a variant allows it
- int8-if-any: the INT8 variant where there is one, else the first, in the engine that the agent tries first
- roboflow-order: a static order like that of Roboflow's inference-models (`auto_loaders/ranking.py`): first by backend,
  TensorRT, PyTorch, Hugging Face, ONNX, MediaPipe, and in a backend INT8 before float. Of these boards have ONNX
  Runtime, and LiteRT, which runs MediaPipe's files.
- agent-order: what the agent takes where nothing was measured

Run by hand: `python -m benchmarks.tuned_choice [--models note-events …] [--threads 1,2] [--quick] [--json]`. Tuning
takes its budget a model at most, the exhaustive search comes on top. The first run
fetches the models and what makes their INT8 variants.
"""

import argparse
import contextlib
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata

from shoal_agent.engine_table import engines_for
from shoal_agent.tuned import Limits
from shoal_agent.tuning.bench import Bench, CandidateFailed, LoadedFiles
from shoal_agent.tuning.grid import FASTER
from shoal_agent.tuning.meters import NoMeter
from shoal_agent.tuning.options import BUDGET_S
from shoal_agent.tuning.rules import choose
from shoal_agent.tuning.search import Goal, search
from shoal_converters.wheels import default_cache
from shoal_wire.tuning import Candidate
from shoal_worker.memory import seal_bytes

from benchmarks.real_models import MODELS, RealModel, TensorTask, load_variant

TURN_S = 0.12
ROUNDS = 20
QUICK = {"budget_s": 20.0, "rounds": 8}
DEADLINE_S = 30.0
YARDSTICKS: Mapping[str, float] = {"p50": 0.5, "calm": 0.25}
"""Quantile of all latencies of a candidate."""

Rounds = Mapping[Candidate, Sequence[Sequence[float]]]
"""Latencies in ms of each round of each candidate that answers right."""


def main() -> None:
    """Measure and print."""
    options = _parse_arguments()
    results = []
    for name in options.models or list(MODELS):
        result = {"model": name, **measure(MODELS[name], options)}
        results.append(result)
        print(json.dumps(result) if options.json else _table(result), flush=True)
    summary = _summarise(results)
    print(json.dumps(summary) if options.json else "\n".join(f"{key:28}{value}" for key, value in summary.items()))


def measure(model: RealModel, options: argparse.Namespace) -> dict[str, object]:
    """Tune one model, search its grid, and compare."""
    grid = list_grid(model, threads=options.threads)
    with _bench(model) as bench:
        began = time.monotonic()
        found = search(grid, bench, goal=Goal("latency", Limits(), options.budget_s))
        finalists = [one for one in found.measured if one.is_finalist]
        chosen = choose(finalists, objective="latency", limits=Limits()).candidate
        took_s = time.monotonic() - began
    assert chosen is not None
    with _bench(model) as bench:
        rounds = measure_all(bench, grid, rounds=options.rounds)
    picks = {"tuned": chosen}
    for rule, pick in RULES.items():
        candidate = pick(model, list(rounds), max(options.threads))
        if candidate is not None:
            picks[rule] = candidate
    truth = {name: _quantiles(rounds, at) for name, at in YARDSTICKS.items()}
    best = min(truth["p50"], key=lambda candidate: truth["p50"][candidate])
    return {
        "candidates": len(grid),
        "right": len(rounds),
        "refused": {str(one.candidate): one.reason for one in found.refused},
        "best": str(best),
        "best_ms": round(truth["p50"][best], 3),
        "picks": {name: str(pick) for name, pick in picks.items()},
        "ratios": {name: round(_ratio(truth["p50"], pick), 4) for name, pick in picks.items()},
        "calm_ratios": {name: round(_ratio(truth["calm"], pick), 4) for name, pick in picks.items()},
        "repeatability": {name: round(repeatability(rounds, at), 4) for name, at in YARDSTICKS.items()},
        "is_settled": found.is_settled,
        "tuning_s": round(took_s, 1),
        "budget_s": options.budget_s,
        "grid_ms": {str(candidate): round(value, 3) for candidate, value in truth["p50"].items()},
    }


def list_grid(model: RealModel, *, threads: Sequence[int]) -> list[Candidate]:
    """Every engine here for every variant, in every precision that makes a difference, with these threads."""
    return [
        Candidate(variant=variant, engine=engine, precision=precision, threads=count)
        for variant, file in model.variants.items()
        for engine in engines_for(file.model_format, interpreters={})
        for precision in (("exact", "fast") if _is_fast_faster(engine) else ("exact",))
        for count in threads
    ]


def measure_all(bench: Bench, grid: Sequence[Candidate], *, rounds: int) -> Rounds:
    """Measure every candidate that answers right, all in the same rounds."""
    right: list[Candidate] = []
    for candidate in grid:
        with contextlib.suppress(CandidateFailed):
            bench.check(candidate, timeout_s=DEADLINE_S)
            right.append(candidate)
    found: dict[Candidate, list[tuple[float, ...]]] = {candidate: [] for candidate in right}
    for number in range(rounds):
        first = number % len(right)
        order = [*right[first:], *right[:first]]
        for candidate in order if number % 2 == 0 else reversed(order):
            found[candidate].append(bench.turn(candidate, seconds=TURN_S, with_rate=False).latencies_ms)
    return found


def repeatability(rounds: Rounds, at: float) -> float:
    """The ratio of what one half of the rounds would choose, judged by the other half; the mean of both ways."""
    halves = [_quantiles({one: own[part::2] for one, own in rounds.items()}, at) for part in (0, 1)]
    choices = [min(half, key=lambda candidate: half[candidate]) for half in halves]
    return math.sqrt(_ratio(halves[1], choices[0]) * _ratio(halves[0], choices[1]))


def _pick(
    variants: Sequence[str], right: Sequence[Candidate], *, threads: int, engines: Sequence[str]
) -> Candidate | None:
    """The first engine, of the first variant, that is among those that answer right."""
    wanted = [(variant, engine, "exact", threads) for variant in variants for engine in engines]
    here = {(one.variant, one.engine, one.precision, one.threads): one for one in right}
    return next((here[key] for key in wanted if key in here), None)


def _always(engine: str) -> Callable[[RealModel, Sequence[Candidate], int], Candidate | None]:
    return lambda model, right, threads: _pick(list(model.variants), right, threads=threads, engines=[engine])


def _int8_if_any(model: RealModel, right: Sequence[Candidate], threads: int) -> Candidate | None:
    variants = sorted(model.variants, key=lambda name: not name.endswith("int8"))
    engines = engines_for(model.variants[variants[0]].model_format, interpreters={})
    return _pick(variants[:1], right, threads=threads, engines=engines)


def _roboflow_order(model: RealModel, right: Sequence[Candidate], threads: int) -> Candidate | None:
    int8_first = sorted(model.variants, key=lambda name: not name.endswith("int8"))
    onnx = _pick(int8_first, right, threads=threads, engines=["onnxruntime"])
    return onnx or _pick(int8_first, right, threads=threads, engines=["litert"])


def _agent_order(model: RealModel, right: Sequence[Candidate], threads: int) -> Candidate | None:
    name, file = next(iter(model.variants.items()))
    return _pick([name], right, threads=threads, engines=engines_for(file.model_format, interpreters={}))


RULES: Mapping[str, Callable[[RealModel, Sequence[Candidate], int], Candidate | None]] = {
    "always-onnxruntime": _always("onnxruntime"),
    "always-litert": _always("litert"),
    "int8-if-any": _int8_if_any,
    "roboflow-order": _roboflow_order,
    "agent-order": _agent_order,
}
"""What rules that don't measure take of the candidates that answer right; None where they don't apply."""


@contextlib.contextmanager
def _bench(model: RealModel) -> Iterator[Bench]:
    with contextlib.ExitStack() as opened:
        variants = {}
        for name, file in model.variants.items():
            content = load_variant(model, name, cache=default_cache())
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


def _is_fast_faster(engine: str) -> bool:
    """Whether "fast" differs from "exact" on this processor. Twins would only make the grid longer."""
    if platform.machine() not in FASTER.get(engine, ()):
        return False
    if engine != "openvino":
        return True
    from shoal_worker.engines import openvino_engine  # first: it sees to it that openvino doesn't report its use

    can = sys.modules["openvino"].Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return any(capability in can for capability, _ in openvino_engine.PRECISIONS["fast"])


def _quantiles(rounds: Rounds, at: float) -> dict[Candidate, float]:
    """A quantile of all latencies of each candidate."""
    found = {}
    for candidate, own in rounds.items():
        ordered = sorted(latency for one in own for latency in one)
        found[candidate] = ordered[round(at * (len(ordered) - 1))]
    return found


def _ratio(truth: Mapping[Candidate, float], pick: Candidate) -> float:
    """0 for a choice that turned out to answer wrongly."""
    return min(truth.values()) / truth[pick] if pick in truth else 0.0


def _summarise(results: Sequence[Mapping[str, object]]) -> dict[str, object]:
    summary: dict[str, object] = {"models": len(results)}
    for key, title in (("ratios", ""), ("calm_ratios", " (calm)")):
        for name in ("tuned", *RULES):
            values = [ratios[name] for result in results if name in (ratios := _figures(result, key))]
            if values:
                summary[name + title] = _words(values)
    for name in YARDSTICKS:
        summary[f"repeatability {name}"] = _words([_figures(result, "repeatability")[name] for result in results])
    versions = ("onnxruntime", "openvino", "ai-edge-litert")
    summary["engines"] = ", ".join(f"{name} {metadata.version(name)}" for name in versions)
    return summary


def _figures(result: Mapping[str, object], key: str) -> dict[str, float]:
    figures = result[key]
    assert isinstance(figures, dict)
    return figures


def _words(values: Sequence[float]) -> str:
    mean = statistics.geometric_mean(values) if all(values) else 0.0
    return f"geometric mean {mean:.3f}, least {min(values):.3f}, n {len(values)}"


def _table(result: Mapping[str, object]) -> str:
    settled = "settled" if result["is_settled"] else "not settled"
    title = f"{result['model']}: {result['right']} of {result['candidates']} candidates answer right; "
    title += f"tuned in {result['tuning_s']} of {result['budget_s']:g} s, {settled}"
    picks, grid, repeats = result["picks"], _figures(result, "grid_ms"), _figures(result, "repeatability")
    assert isinstance(picks, dict)
    lines = [title, f"  {'':20}{'':44}{'p50 ms':>9}{'ratio':>8}{'calm':>8}"]
    lines.append(f"  {'best':20}{result['best']!s:44}{result['best_ms']:9.3f}{1:8.3f}")
    for name, pick in picks.items():
        ratios = "".join(f"{_figures(result, key)[name]:8.3f}" for key in ("ratios", "calm_ratios"))
        lines.append(f"  {name:20}{pick:44}{grid.get(pick, math.nan):9.3f}{ratios}")
    lines.append(f"  {'repeatability':20}{'':44}{'':9}{repeats['p50']:8.3f}{repeats['calm']:8.3f}")
    return "\n".join(lines)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tuning's choice beside an exhaustive search over the same grid.")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), help="(default: all)")
    parser.add_argument(
        "--threads", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2], help="(default: 1,2)"
    )
    parser.add_argument("--budget-s", type=float, default=BUDGET_S, help="for tuning (default: %(default)g)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the exhaustive search (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help=f"short: {QUICK}")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    return options


if __name__ == "__main__":
    main()
