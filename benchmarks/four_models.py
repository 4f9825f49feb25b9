"""Do four models in one front get as much out of two cores as the best static split of them?

Four chains of different cost, each with more items than it can answer. What counts is the sum of normalised rates: each
model's answers a second beside what it gives alone on one core with one thread, in the bare engine. Two cores can give
about 2. Ways, in turns within one run:

- front: one front with four sources, and one processor budget for its four workers
- programs: what one would write by hand, a program for each model that prepares an item, runs the engine and makes an
  answer, of items that it has in memory
- engines: bare engines on prepared tensors, each in a process of its own

Programs and engines share out the cores in every way that makes sense: all free to run anywhere, with one thread or
two; one on a core of its own and three on the other; two on each. The best of them is taken after the fact, which
nobody could know before. The front also reads files, writes answers to its daemon's end and removes the files; what
that costs is told in cores (`front_uses_cores`), with this program's part, which stands for the daemon.

Run by hand: `python -m benchmarks.four_models [--costs 10 20 50 100] [--seconds 3] [--rounds 2] [--json]`
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal_agent import front_messages as messages
from shoal_worker.channel import Channel, ChannelClosed
from shoal_worker.memory import read_sealed, seal_bytes

from benchmarks.sound_models import SoundModel, build_release, chain, chain_pipeline, make_sound, open_session
from tests.system.agent.front_board import DEADLINE_S, DEVICE, Board

COSTS_MS = (10.0, 20.0, 50.0, 100.0)
CORES = 2
WARM_S = 0.5
SILENCE_S = 1.0
"""A front that said nothing for so long has answered whatever it had."""
KINDS = ("programs", "engines")


class Split(NamedTuple):
    """How bare engines share out the cores: which each may use, and with how many threads."""

    name: str
    cores: tuple[tuple[int, ...], ...]
    threads: int


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["--engine"]:
        run_engine(*map(int, sys.argv[2:6]), cores=[int(core) for core in sys.argv[6:]])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--costs", type=float, nargs=4, default=COSTS_MS, help="ms an inference (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="of each turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    os.sched_setaffinity(0, cores)  # whoever is started here inherits that
    models = [chain(cost_ms, name=f"chain-{number}") for number, cost_ms in enumerate(options.costs)]
    result = measure(models, cores=cores, seconds=options.seconds, rounds=options.rounds)
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))


def measure(models: Sequence[SoundModel], *, cores: Sequence[int], seconds: int, rounds: int) -> dict[str, Any]:
    """Sums of normalised rates of each way, and the ratios of the front's to the best split's."""
    splits = {f"{kind}: {split.name}": (kind, split) for kind in KINDS for split in list_splits(cores)}
    alone: list[list[float]] = [[] for _ in models]
    rates: dict[str, list[list[float]]] = {name: [] for name in ("front", *splits)}
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Front(Path(folder), models)) as front:
        for _ in range(rounds):
            for number, model in enumerate(models):
                (rate,) = time_split([model], Split("alone", (tuple(cores[:1]),), 1), kind="engines", seconds=1)
                alone[number].append(rate)
            for name, (kind, split) in splits.items():
                rates[name].append(time_split(models, split, kind=kind, seconds=seconds))
            rates["front"].append(front.time(seconds, most=[each[-1] for each in alone]))
    best_alone = [statistics.median(each) for each in alone]
    sums = {
        name: statistics.median(sum(a / b for a, b in zip(each, best_alone, strict=True)) for each in found)
        for name, found in rates.items()
    }
    best = {
        kind: max((name for name in splits if splits[name][0] == kind), key=lambda name: sums[name]) for kind in KINDS
    }
    told = ["front", *best.values()]
    medians = {name: [statistics.median(each) for each in zip(*rates[name], strict=True)] for name in told}
    return {
        "cores": len(cores),
        "load": round(os.getloadavg()[0], 1),
        "alone_per_s": [round(rate, 1) for rate in best_alone],
        "answers_per_s": {name: [round(rate, 1) for rate in each] for name, each in medians.items()},
        "sum_of_normalised": {name: round(value, 3) for name, value in sums.items()},
        "front_uses_cores": front.used_cores,
        "best_split": best,
        "front_to_best_split": {kind: round(sums["front"] / sums[name], 3) for kind, name in best.items()},
    }


def list_splits(cores: Sequence[int]) -> list[Split]:
    """Every static split of four engines over two cores; with one core, none to speak of."""
    both = tuple(cores)
    splits = [Split("anywhere", (both,) * 4, 1), Split("anywhere, two threads", (both,) * 4, 2)]
    for count in (1, 2):
        for chosen in itertools.combinations(range(4), count):
            if count == 1 or 0 in chosen:  # the other pair is the same split
                pinned = tuple((both[0] if number in chosen else both[-1],) for number in range(4))
                splits.append(Split(f"{' and '.join(map(str, chosen))} on one core", pinned, 1))
    return splits


def time_split(models: Sequence[SoundModel], split: Split, *, kind: str, seconds: int) -> list[float]:
    """Answers a second of each model, all at the same time, each in a process of its own."""
    with contextlib.ExitStack() as opened:
        engines = []
        for model, cores in zip(models, split.cores, strict=True):
            fd = seal_bytes(model.onnx)
            opened.callback(os.close, fd)
            numbers = [fd, split.threads, seconds, KINDS.index(kind), *cores]
            command = [sys.executable, "-m", "benchmarks.four_models", "--engine", *map(str, numbers)]
            engine = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[fd])
            opened.enter_context(engine)
            opened.callback(engine.kill)
            engines.append(engine)
        for engine in engines:
            assert engine.stdout is not None and engine.stdout.readline() == "ready\n"
        for engine in engines:
            assert engine.stdin is not None
            engine.stdin.write("go\n")
            engine.stdin.flush()
        return [float(engine.stdout.readline()) for engine in engines if engine.stdout is not None]


def run_engine(model_fd: int, threads: int, seconds: int, kind: int, *, cores: Sequence[int]) -> None:
    """One model in a process of its own: says that it is ready, waits for a line, computes, says its rate."""
    os.sched_setaffinity(0, cores)
    session = open_session(read_sealed(model_fd), threads=threads)
    pipeline, sound = chain_pipeline(), make_sound(1)
    prepared = pipeline.prepare(sound)
    names = [output.name for output in session.get_outputs()]

    def infer() -> None:
        session.run(None, prepared.calls[0])

    def answer() -> None:
        item = pipeline.prepare(sound)
        outputs = [dict(zip(names, session.run(None, call), strict=True)) for call in item.calls]
        pipeline.describe(pipeline.finish(outputs, item.context))

    run = {"programs": answer, "engines": infer}[KINDS[kind]]
    run()
    print("ready", flush=True)
    sys.stdin.readline()
    started, count = time.monotonic(), 0
    while time.monotonic() < started + seconds:
        run()
        count += 1
    print(count / (time.monotonic() - started), flush=True)


def _computed_s(pid: int) -> float:
    """Of all threads of a process (proc(5): schedstat, first field, in nanoseconds)."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


class Front:
    """A front that serves all models, each from a source of its own."""

    def __init__(self, folder: Path, models: Sequence[SoundModel]) -> None:
        self._board = Board(folder)
        self._models = {f"source-{number}": model for number, model in enumerate(models)}
        self._board.sources = {
            name: messages.Source(name, "folder", str(folder / name), model.name)
            for name, model in self._models.items()
        }
        for name in self._models:
            (folder / name).mkdir()
        self._board.configuration = messages.Configure(device=DEVICE)
        self._numbers = itertools.count()
        self._channel: Channel = self._board.start_front()[0]
        for model in models:
            held = self._board.hold(build_release(model, folder / "releases" / model.name))
            served = self._board.load(self._channel, held)
            assert isinstance(served, messages.Serving), served
        self.used_cores: dict[str, float] = {}
        """In the last turn."""
        self._answered: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._following = threading.Thread(target=self._follow)
        self._following.start()

    def time(self, seconds: float, *, most: Sequence[float]) -> list[float]:
        """Answers a second of each model, all at the same time, of no more than `most`.

        All items are there before: whoever writes them isn't measured.
        """
        for name, rate in zip(self._models, most, strict=True):
            for _ in range(math.ceil(rate * (seconds + WARM_S))):
                self._place(name)
        self._count(WARM_S)
        started, before = time.monotonic(), self._processor_seconds()
        counts = self._count(seconds)
        passed_s, after = time.monotonic() - started, self._processor_seconds()
        self.used_cores = {name: round((after[name] - before[name]) / passed_s, 2) for name in after}
        for source in self._board.sources.values():
            for left in Path(source.path).iterdir():
                left.unlink(missing_ok=True)
        with contextlib.suppress(queue.Empty):
            while True:
                self._answered.get(timeout=SILENCE_S)  # the front is idle when others are measured
        return [counts[name] / passed_s for name in self._models]

    def close(self) -> None:
        """End it."""
        self._board.close()
        self._following.join()

    def _count(self, seconds: float) -> Counter[str]:
        """Answers by source."""
        counts: Counter[str] = Counter()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            counts[self._answered.get(timeout=DEADLINE_S)] += 1
        return counts

    def _processor_seconds(self) -> dict[str, float]:
        """That front, workers and this program have computed for."""
        front = self._board.front_pids[-1]
        workers = [
            int(pid) for path in Path(f"/proc/{front}/task").glob("*/children") for pid in path.read_text().split()
        ]
        return {
            "front": _computed_s(front),
            "workers": sum(_computed_s(worker) for worker in workers),
            "daemon's end": _computed_s(os.getpid()),
        }

    def _follow(self) -> None:
        """Hear the front all the time: one that nobody listens to ends."""
        with contextlib.suppress(ChannelClosed):
            while True:
                message = self._board.follow(self._channel, until=lambda _: True)
                for answer in message.items if isinstance(message, messages.Answers) else ():
                    assert "error" not in answer.answer, answer.answer
                    self._answered.put(answer.source)

    def _place(self, name: str) -> None:
        number = next(self._numbers)
        sounds = self._models[name].sounds
        self._board.place(f"{number:08d}.wav", sounds[number % len(sounds)], source=name)


if __name__ == "__main__":
    main()
