"""What do answers pay while one release takes another's place?

A whole front with two releases of one network; the two are swapped again and again, each time loaded anew, while items
come at a constant rate. What lay within a swap (from the order to a second after the end of the old release) is
compared with what lay between swaps, in one run. Two latencies of each item:

- answering: what the front says, from the item's bytes in memory to its answer, without a wait for its turn
- whole: from when the item should have come to when the daemon's end has its answer; a source looks for files ten times
  a second, and an item that waits counts with its wait

Scenes, one after the other:

- spare-core: the new release is loaded beside the one that serves, whose worker has `--threads`
- computing-neighbour: no swaps; a process that only gets idle time computes instead. What a second core costs on this
  machine whatever it does (shared caches and memory): no swap can disturb less
- busy-cores: as the first, while as many processes as there are cores compute at full priority
- resource-preserving: the old release goes first. Items wait in the gap, by definition: its length is told, and what
  was answered within a swap leaves out what had to wait in it

Run by hand: `python -m benchmarks.swap_latency [--swaps 12] [--model chain] [--rate 20] [--threads 1] [--json]`
"""

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from shoal_agent import front_messages as messages
from shoal_agent.configuration import SlotSetting, SwapPolicy
from shoal_agent.slots import HeldRelease

from benchmarks.sound_models import SoundModel, build_release, chain, note_events
from tests.system.agent.front_board import DEVICE, Board, send

CHAIN_MS = 20.0
SETTLE_S = 1.0
"""After a swap, while the old release goes: belongs to it."""
MODELS = {"chain": lambda: chain(CHAIN_MS), "note-events": note_events}
COMPUTE = (
    "import os, sys\nif sys.argv[1:]: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
)
SCENES = ("spare-core", "computing-neighbour", "busy-cores", "resource-preserving")


class Item(NamedTuple):
    """When an item was due and answered, in seconds, and what the front says that it took."""

    due: float
    answered: float
    answering_ms: float

    @property
    def whole_ms(self) -> float:
        return (self.answered - self.due) * 1000


class Swap(NamedTuple):
    """A span of time, and the gap within it for which nothing served."""

    began: float
    over: float
    gap: tuple[float, float] | None = None

    def holds(self, item: Item) -> bool:
        return self.began <= item.answered and item.due <= self.over

    def holds_back(self, item: Item) -> bool:
        return self.gap is not None and self.gap[0] <= item.answered and item.due <= self.gap[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swaps", type=int, default=12, help="swaps in each scene (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=20.0, help="items a second (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=3.0, help="seconds between two swaps (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the worker (default: %(default)s)")
    parser.add_argument("--model", choices=MODELS, default="chain", help="what is served (default: %(default)s)")
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=SCENES, help="default: all")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    result: dict[str, Any] = {
        **vars(options),
        "processors": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }
    model = MODELS[options.model]()
    for scene in options.scenes:
        with tempfile.TemporaryDirectory() as folder:
            result[scene] = play_scene(scene, Path(folder), model, options=options)
        if not options.json:
            print(json.dumps({scene: result[scene]}, indent=2), flush=True)
    if options.json:
        print(json.dumps(result))


def play_scene(scene: str, folder: Path, model: SoundModel, *, options: argparse.Namespace) -> dict[str, Any]:
    """Latencies in ms within and between swaps, and the ratios of their percentiles."""
    policy: SwapPolicy = "resource-preserving" if scene == "resource-preserving" else "availability-preserving"
    board = Board(folder)
    board.sources = {"mic": messages.Source("mic", "folder", str(board.inbox), model.name)}
    settings = {model.name: SlotSetting(swap=policy)}
    board.configuration = messages.Configure(device=DEVICE, threads=options.threads, slots=settings)
    held = [board.hold(build_release(model, folder / f"release-{v}", version=v)) for v in (1, 2)]
    busy = len(os.sched_getaffinity(0)) if scene == "busy-cores" else 0
    with contextlib.closing(board), _computing(busy):
        channel, _ = board.start_front()
        board.load(channel, held[1])
        load = Load(board, channel, model.sounds, rate=options.rate)
        load.start()
        load.take_for(options.pause)  # the first items of a front are no steady state
        since = time.monotonic()
        if scene == "computing-neighbour":
            swaps = _stand_by(load, pause_s=options.pause, times=options.swaps)
        else:
            swaps = _swap_all(load, board, held, pause_s=options.pause, times=options.swaps)
        load.take_for(options.pause)
        load.stop()
    return compare([item for item in load.items() if item.due > since], swaps)


def _swap_all(load: "Load", board: Board, held: Sequence[HeldRelease], *, pause_s: float, times: int) -> list[Swap]:
    swaps = []
    for number in range(times):
        load.take_for(pause_s)
        order = held[number % 2]
        slot = order.reference.release
        began, stopped = time.monotonic(), None
        send(load.channel, messages.Load(slot=slot, held=order, store=str(board.store), content_keys=board.keys))
        while not isinstance(message := load.take(), messages.Serving):
            assert not isinstance(message, messages.LoadFailed), message.reason
            stopped = time.monotonic() if isinstance(message, messages.Stopped) else stopped
        served = time.monotonic()
        send(load.channel, messages.Unload(slot=slot, keep=(order.reference.manifest_sha256,)))
        load.take_for(SETTLE_S)
        swaps.append(Swap(began, time.monotonic(), gap=None if stopped is None else (stopped, served)))
    return swaps


def _stand_by(load: "Load", *, pause_s: float, times: int) -> list[Swap]:
    """In place of swaps: a process that computes in idle time for as long as a swap would take."""
    swaps = []
    for _ in range(times):
        load.take_for(pause_s)
        began = time.monotonic()
        with _computing(1, "idle"):
            load.take_for(2 * SETTLE_S)
        swaps.append(Swap(began, time.monotonic()))
    return swaps


@contextlib.contextmanager
def _computing(count: int, *arguments: str) -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", COMPUTE, *arguments]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Load:
    """Items that come at a constant rate, and when their answers came."""

    def __init__(self, board: Board, channel: Any, sounds: Sequence[bytes], *, rate: float) -> None:
        self.channel = channel
        self._board = board
        self._period_s = 1 / rate
        self._sounds = sounds
        self._due: dict[str, float] = {}
        self._answered: dict[str, tuple[float, float]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._place_all)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """No more items from now on; returns when all have an answer."""
        self._stopping.set()
        self._thread.join()
        while len(self._answered) < len(self._due):
            self.take()

    def items(self) -> list[Item]:
        """All, by when they were due."""
        return [Item(due, *self._answered[answer]) for answer, due in self._due.items()]

    def take(self) -> Any:
        """The next message of the front."""
        message = self._board.follow(self.channel, until=lambda _: True)
        for answer in message.items if isinstance(message, messages.Answers) else ():
            assert "error" not in answer.answer, answer.answer
            self._answered[answer.answer_id] = (time.monotonic(), answer.latency_ms)
        return message

    def take_for(self, seconds: float) -> None:
        """What the front says for so long."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.take()

    def _place_all(self) -> None:
        due, number = time.monotonic(), 0
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            answer = self._board.place(f"{number:06d}.wav", self._sounds[number % len(self._sounds)])
            self._due[answer] = due
            due, number = due + self._period_s, number + 1


def compare(items: Sequence[Item], swaps: Sequence[Swap]) -> dict[str, Any]:
    """Percentiles of items that were due or answered within a swap, and of the others."""
    held_back = [item for item in items if any(swap.holds_back(item) for swap in swaps)]
    free = [item for item in items if not any(swap.holds_back(item) for swap in swaps)]
    within = [item for item in free if any(swap.holds(item) for swap in swaps)]
    between = [item for item in free if not any(swap.holds(item) for swap in swaps)]
    result: dict[str, Any] = {
        "items": {"within": len(within), "between": len(between)},
        "answering": _compare([i.answering_ms for i in within], [i.answering_ms for i in between]),
        "whole": _compare([i.whole_ms for i in within], [i.whole_ms for i in between]),
        "swap_s": round(sum(swap.over - swap.began - SETTLE_S for swap in swaps) / len(swaps), 2),
    }
    gaps = [swap.gap[1] - swap.gap[0] for swap in swaps if swap.gap]
    if gaps:
        result["gap_s"] = {"mean": round(sum(gaps) / len(gaps), 2), "longest": round(max(gaps), 2)}
        result["waited_in_gap"] = {"items": len(held_back)} | _describe([item.whole_ms for item in held_back])
    return result


def _compare(within: Sequence[float], between: Sequence[float]) -> dict[str, Any]:
    one, other = _describe(within), _describe(between)
    ratios = {f"{name}_ratio": round(one[name] / other[name], 3) for name in ("p99", "p95", "p50")}
    return {**ratios, "within_ms": one, "between_ms": other}


def _describe(values: Sequence[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {name: round(percentile(values, share), 2) for name, share in shares.items()} if values else {}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all doesn't exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


if __name__ == "__main__":
    main()
