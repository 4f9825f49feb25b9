"""How many answers a second come through front, worker and shared memory, beside the bare engine on the same items?

Models from 0.05 to 50 ms an inference, made here, and the example's network. Ways, in turns within one run, so that a
busy machine slows all of them:

- engine: ONNX Runtime in this process, with a worker's options, on tensors that were prepared before the clock started
- spinning: the same, but idle threads spin, which is ONNX Runtime's default; with one thread there are none
- pipeline: pre-processing, ONNX Runtime and post-processing in this process, one item after the other
- one: a served model (pre-processing, worker, shared memory, post-processing), one item after the other
- served: the same with two items under way, as a source has them
- front: files in a folder, through a front of its own, until the daemon's end has every answer

`lost_us` is what an answer costs beyond the engine's own time. `costs_us` says of what: pre- and post-processing,
copies in shared memory, and messages (encoding and decoding on both sides), each measured alone in one thread. The rest
of `one` are two changes of process, and with a small model the caches that they cost.

Run by hand: `python -m benchmarks.front_throughput [--costs 0.05 5] [--threads 1] [--rounds 5] [--json]`
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from shoal_agent import front_messages as messages
from shoal_agent.front.folder_source import UNDER_WAY
from shoal_agent.front.model_workers import Death, Recipe
from shoal_agent.front.operations.values import Tensors
from shoal_agent.front.serving_model import ServingModel
from shoal_agent.front.worker import WorkerOptions
from shoal_worker.channel import Channel
from shoal_worker.memory import create_fixed, seal_bytes
from shoal_worker.messages import Answer, Infer, Message, pack_message, unpack_message
from shoal_worker.tensors import plan_layout

from benchmarks.sound_models import SoundModel, build_release, chain, note_events, open_session
from tests.system.agent.front_board import DEVICE, Board

COSTS_MS = (0.05, 0.2, 1.0, 5.0, 20.0, 50.0)
TURN_S = 3.0
"""What a way has of each round, about."""
MOST_ITEMS = 400
DEADLINE_S = 60.0
COST_RUNS = 300

Ways = Mapping[str, Callable[[int], None]]
"""Each answers a number of items."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=float, nargs="*", default=COSTS_MS, help="ms an inference (default: all)")
    parser.add_argument("--no-example", action="store_true", help="leave the example's network out")
    parser.add_argument("--threads", type=int, default=1, help="of the engine, in all ways (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object a model")
    arguments = parser.parse_args()
    models = [chain(cost_ms) for cost_ms in arguments.costs]
    for model in models if arguments.no_example else [*models, note_events()]:
        result = measure(model, threads=arguments.threads, rounds=arguments.rounds)
        print(json.dumps(result) if arguments.json else _table(result), flush=True)


def measure(model: SoundModel, *, threads: int, rounds: int) -> dict[str, Any]:
    """Answers a second of each way, what is lost against the engine, and why."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as opened:
        served = opened.enter_context(contextlib.closing(_serve(model, threads=threads)))
        board = Board(Path(folder))
        opened.callback(board.close)
        ways = _bare_ways(model, threads=threads) | _served_ways(model, served)
        ways["front"] = _front_way(board, model, threads=threads)
        items = _items_a_turn(ways["engine"])
        for run in ways.values():
            run(min(items, 20))  # warm
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds):
            for name in sorted(ways, reverse=bool(number % 2)):  # who comes after whom changes, too
                seconds[name].append(_time(partial(ways[name], items)) / items)
        costs = _costs(model, served)
    engine_s = statistics.median(seconds["engine"])
    ratios = {name: [a / b for a, b in zip(seconds["engine"], each, strict=True)] for name, each in seconds.items()}
    return {
        "model": model.name,
        "engine_ms": round(engine_s * 1000, 4),
        "threads": threads,
        "processors": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
        "items": items * rounds,
        "answers_per_s": {name: round(1 / statistics.median(each), 1) for name, each in seconds.items()},
        "ratio": {name: round(statistics.median(each), 3) for name, each in ratios.items() if name != "engine"},
        "ratio_to_pipeline": {
            name: round(statistics.median(seconds["pipeline"]) / statistics.median(seconds[name]), 3)
            for name in ("one", "served", "front")
        },
        "ratio_worst_best": {name: [round(min(each), 3), round(max(each), 3)] for name, each in ratios.items()},
        "lost_us": {name: round((statistics.median(each) - engine_s) * 1e6) for name, each in seconds.items()},
        "costs_us": costs,
    }


def _bare_ways(model: SoundModel, *, threads: int) -> dict[str, Callable[[int], None]]:
    pipeline = model.pipeline
    prepared = [pipeline.prepare(raw) for raw in model.sounds]
    plain, spinning = (open_session(model.onnx, threads=threads, is_spinning=spins) for spins in (False, True))
    names = [output.name for output in plain.get_outputs()]

    def run_engine(items: int, *, session: Any = plain) -> None:
        for number in range(items):
            for call in prepared[number % len(prepared)].calls:
                session.run(None, call)

    def run_pipeline(items: int) -> None:
        for number in range(items):
            item = pipeline.prepare(model.sounds[number % len(model.sounds)])
            outputs = [dict(zip(names, plain.run(None, call), strict=True)) for call in item.calls]
            pipeline.describe(pipeline.finish(outputs, item.context))

    return {
        "engine": run_engine,
        "spinning": lambda items: run_engine(items, session=spinning),
        "pipeline": run_pipeline,
    }


def _served_ways(model: SoundModel, served: ServingModel) -> dict[str, Callable[[int], None]]:
    def run(items: int, *, at_once: int) -> None:
        def answer(number: int) -> None:
            served.answer(model.sounds[number % len(model.sounds)])

        with ThreadPoolExecutor(at_once) as threads:
            for _ in threads.map(answer, range(items)):
                pass

    return {"one": lambda items: run(items, at_once=1), "served": lambda items: run(items, at_once=UNDER_WAY)}


def _front_way(board: Board, model: SoundModel, *, threads: int) -> Callable[[int], None]:
    """Putting the items into the folder is part of it, and goes on beside the first answers."""
    board.configuration = messages.Configure(device=DEVICE, threads=threads)
    board.sources = {"mic": messages.Source("mic", "folder", str(board.inbox), model.name)}
    channel, _ = board.start_front()
    board.load(channel, board.hold(build_release(model, board.store.parent / "release")))

    def run(items: int) -> None:
        board.answers.clear()
        for number in range(items):
            board.place(f"{time.monotonic_ns()}-{number}.wav", model.sounds[number % len(model.sounds)])
        board.follow_answers(channel, items)
        wrong = [answer.answer for answer in board.answers if "error" in answer.answer]
        assert not wrong, wrong[0]

    return run


def _serve(model: SoundModel, *, threads: int) -> ServingModel:
    recipe = Recipe(
        interpreter=sys.executable,
        engine="onnxruntime",
        model_format="onnx",
        model_fds=(seal_bytes(model.onnx),),
        options=WorkerOptions(threads=threads),
        warm_up=model.pipeline.prepare(model.sounds[0]).calls[0],
        deadline_s=DEADLINE_S,
    )
    return ServingModel.start([recipe], pipeline=model.pipeline, variant="onnx-fp32", watcher=_Watcher())


class _Watcher:
    """A worker that dies spoils the measurement."""

    def died(self, death: Death) -> None:
        raise AssertionError(death.reason)

    def noticed(self, name: str, detail: str) -> None:
        raise AssertionError(f"{name}: {detail}")

    def stopped(self, reason: str) -> None:
        raise AssertionError(reason)


def _costs(model: SoundModel, served: ServingModel) -> dict[str, float]:
    """Microseconds of an answer for what can be measured alone, and the calls that it takes."""
    prepared = model.pipeline.prepare(model.sounds[0])
    outputs = [
        served.workers.run(call, deadline_s=DEADLINE_S, item_sha256="", is_first=True) for call in prepared.calls
    ]
    found = [ran.outputs for ran in outputs]
    calls = list(zip(prepared.calls, found, strict=True))
    return {
        "calls": len(calls),
        "pre_and_post": _microseconds(
            lambda: model.pipeline.finish(found, model.pipeline.prepare(model.sounds[0]).context)
        ),
        "copies": round(sum(_copies_us(*call) for call in calls), 1),
        "messages": round(len(calls) * _messages_us(), 1),
    }


def _copies_us(feeds: Tensors, outputs: Tensors) -> float:
    """Inputs into shared memory, outputs into it, and outputs out of it."""
    with _shared(feeds) as (inputs, here), _shared(outputs) as (results, there):

        def copy() -> None:
            for name, view in inputs.items():
                view[...] = here[name]
            for name, view in results.items():
                view[...] = there[name]
                view.copy()

        return _microseconds(copy)


@contextlib.contextmanager
def _shared(arrays: Tensors) -> Iterator[tuple[Tensors, Tensors]]:
    """Views of that layout in shared memory, and the arrays."""
    records, size_bytes = plan_layout(arrays)
    mapping, fd = create_fixed(size_bytes)
    os.close(fd)
    views = {
        record.name: np.ndarray(record.shape, arrays[record.name].dtype, buffer=mapping, offset=record.offset)
        for record in records
    }
    yield views, arrays
    views.clear()
    mapping.close()


def _messages_us() -> float:
    """Both messages of a run through one socket pair, without a change of process."""
    ours, theirs = (Channel(end) for end in socket.socketpair())
    sent: list[Message] = [
        Infer(id=1, lane=0, inputs=None),
        Answer(id=1, outputs=None, run_ms=1.234567),
    ]

    def pass_on() -> None:
        for message in sent:
            ours.send_frame(pack_message(message))
            unpack_message(theirs.receive_frame(DEADLINE_S)[0])

    spent = _microseconds(pass_on)
    ours.close()
    theirs.close()
    return spent


def _items_a_turn(run_engine: Callable[[int], None]) -> int:
    one_s = min(_time(lambda: run_engine(1)) for _ in range(10))
    return max(5, min(MOST_ITEMS, round(TURN_S / one_s)))


def _microseconds(run: Callable[[], object]) -> float:
    """The median: who is interrupted isn't slower."""
    return round(statistics.median(_time(run) for _ in range(COST_RUNS)) * 1e6, 1)


def _time(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _table(result: Mapping[str, Any]) -> str:
    lines = [f"{result['model']}: {result['engine_ms']} ms an item in the engine, {result['items']} items a way"]
    for name, rate in result["answers_per_s"].items():
        ratio = result["ratio"].get(name, 1.0)
        lines.append(f"  {name:9} {rate:9.1f}/s  {ratio:6.3f}  {result['lost_us'][name]:7} µs lost")
    lines.append("  of an answer, in µs: " + ", ".join(f"{name} {cost}" for name, cost in result["costs_us"].items()))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
