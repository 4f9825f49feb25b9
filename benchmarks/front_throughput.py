"""How many answers a second does a whole front give, beside the bare engine on the same sounds?

Three ways over the same sounds, one thread each, in turns within one run, so that a busy machine slows all of them:

- engine: ONNX Runtime alone, on tensors that were prepared before the clock started
- pipeline: pre-processing, ONNX Runtime and post-processing, in one process
- front: files in a folder, through front, worker and channel, until the daemon's end has every answer

Run by hand: `python -m benchmarks.front_throughput [--sounds 40] [--rounds 3] [--json]`
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import onnxruntime
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.fetch import default_cache, fetch_model
from shoal_converters.note_events.releases import build_releases
from shoal_wire.manifest import parse_draft

from tests.system.agent.front_board import Board


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sounds", type=int, default=40, help="sounds in each round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    sounds = [play(20_000 + seed).wav for seed in range(arguments.sounds)]
    with tempfile.TemporaryDirectory() as folder:
        rates = measure(Path(folder), sounds, rounds=arguments.rounds)
    result = {
        "sounds": arguments.sounds,
        "rounds": arguments.rounds,
        "answers_per_s": {name: round(statistics.median(values), 2) for name, values in rates.items()},
        "front_to_engine": round(_ratio(rates, "front", "engine"), 3),
        "front_to_pipeline": round(_ratio(rates, "front", "pipeline"), 3),
    }
    print(json.dumps(result) if arguments.json else "\n".join(f"{key}: {value}" for key, value in result.items()))


def measure(folder: Path, sounds: list[bytes], *, rounds: int) -> dict[str, list[float]]:
    """Answers a second of each way, one value a round."""
    model = fetch_model(default_cache()).read_bytes()
    build_releases(model, out=folder / "releases", on_built=lambda _: None)
    release = folder / "releases" / "release-2"
    described = parse_draft((release / "release.json").read_bytes()).models[0]
    pipeline = Pipeline(pre=described.pre, post=described.post)
    session = _session(model)
    prepared = [pipeline.prepare(raw) for raw in sounds]
    board = Board(folder)
    channel, _ = board.start_front()
    board.load(channel, board.hold(release))

    def run_engine() -> None:
        for item in prepared:
            for call in item.calls:
                session.run(None, call)

    def run_pipeline() -> None:
        names = [output.name for output in session.get_outputs()]
        for raw in sounds:
            item = pipeline.prepare(raw)
            outputs = [dict(zip(names, session.run(None, call), strict=True)) for call in item.calls]
            pipeline.finish(outputs, item.context)

    def run_front() -> None:
        board.answers.clear()
        for number, raw in enumerate(sounds):
            board.place(f"{time.monotonic_ns()}-{number}.wav", raw)
        board.follow_answers(channel, len(sounds))

    ways: dict[str, Callable[[], None]] = {"engine": run_engine, "pipeline": run_pipeline, "front": run_front}
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, run in ways.items():
            started = time.monotonic()
            run()
            rates[name].append(len(sounds) / (time.monotonic() - started))
    board.close()
    return rates


def _session(model: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _ratio(rates: dict[str, list[float]], one: str, other: str) -> float:
    return statistics.median(a / b for a, b in zip(rates[one], rates[other], strict=True))


if __name__ == "__main__":
    main()
