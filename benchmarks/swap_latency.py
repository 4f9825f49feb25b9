"""What do answers pay while one release takes another's place?

A whole front with two releases of the same network; the two are swapped again and again, each time loaded anew, while
items come at a constant rate. Each answer is timed from when its item should have come to when the daemon's end has it:
an item that waits counts with its wait. What lay within a swap (from the order to the end of the old release) is
compared with what lay between swaps, in one run.

Run by hand: `python -m benchmarks.swap_latency [--swaps 20] [--rate 2] [--threads 1] [--json]`
"""

import argparse
import json
import math
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from shoal_agent import front_messages as messages
from shoal_agent.configuration import SlotSetting, SwapPolicy
from shoal_converters.note_events.evaluation import play
from shoal_converters.note_events.fetch import default_cache, fetch_model
from shoal_converters.note_events.releases import build_releases

from tests.system.agent.front_board import DEVICE, Board, send

SLOT = "note-events"
SETTLE_S = 1.0
"""After a swap, while the old release goes: belongs to it."""
POLICIES: tuple[SwapPolicy, ...] = ("availability-preserving", "resource-preserving")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swaps", type=int, default=20, help="swaps for each policy (default: %(default)s)")
    parser.add_argument("--rate", type=float, default=2.0, help="items a second (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two swaps (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of the worker (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    result: dict[str, Any] = {**vars(arguments), "processors": len(os.sched_getaffinity(0))}
    with tempfile.TemporaryDirectory() as name:
        build_releases(fetch_model(default_cache()).read_bytes(), out=Path(name) / "releases", on_built=lambda _: None)
        for policy in POLICIES:
            folder = Path(name) / policy
            folder.mkdir()
            result[policy] = measure(folder, Path(name) / "releases", policy=policy, options=arguments)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


def measure(folder: Path, releases: Path, *, policy: SwapPolicy, options: argparse.Namespace) -> dict[str, Any]:
    """Latencies in ms within and between swaps, and the ratio of their 99th percentiles."""
    board = Board(folder)
    settings = {SLOT: SlotSetting(swap=policy)}
    board.configuration = messages.Configure(device=DEVICE, threads=options.threads, slots=settings)
    held = [board.hold(releases / f"release-{version}") for version in (1, 2)]
    channel, _ = board.start_front()
    board.load(channel, held[1])
    load = Load(board, rate=options.rate)
    swaps: list[tuple[float, float]] = []
    load.start()
    for number in range(options.swaps + 1):
        pause_until = time.monotonic() + options.pause
        while time.monotonic() < pause_until:
            load.take(board, channel)
        if number == options.swaps:
            break
        began = time.monotonic()
        order = held[number % 2]
        send(channel, messages.Load(slot=SLOT, held=order, store=str(board.store), content_keys=board.keys))
        while not isinstance(load.take(board, channel), messages.Serving):
            pass
        send(channel, messages.Unload(slot=SLOT, keep=(order.reference.manifest_sha256,)))
        swaps.append((began, time.monotonic() + SETTLE_S))
    load.stop()
    while load.waiting():
        load.take(board, channel)
    board.close()
    return compare(load.latencies(), swaps)


class Load:
    """Items that come at a constant rate, and when their answers came."""

    def __init__(self, board: Board, *, rate: float) -> None:
        self._board = board
        self._period_s = 1 / rate
        self._sounds = [play(20_000 + seed).wav for seed in range(8)]
        self._due: dict[str, float] = {}
        self._answered: dict[str, float] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._place_all)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """No more items from now on."""
        self._stopping.set()
        self._thread.join()

    def waiting(self) -> bool:
        """Whether an item has no answer yet."""
        return len(self._answered) < len(self._due)

    def latencies(self) -> list[tuple[float, float]]:
        """When each item was due, and the milliseconds to its answer."""
        return [(due, (self._answered[answer] - due) * 1000) for answer, due in self._due.items()]

    def take(self, board: Board, channel: Any) -> Any:
        """The next message of the front."""
        message = board.follow(channel, until=lambda _: True)
        for answer in message.items if isinstance(message, messages.Answers) else ():
            self._answered[answer.answer_id] = time.monotonic()
        return message

    def _place_all(self) -> None:
        due, number = time.monotonic(), 0
        while not self._stopping.wait(max(0.0, due - time.monotonic())):
            answer = self._board.place(f"{number:06d}.wav", self._sounds[number % len(self._sounds)])
            self._due[answer] = due
            due, number = due + self._period_s, number + 1


def compare(latencies: list[tuple[float, float]], swaps: list[tuple[float, float]]) -> dict[str, Any]:
    """Percentiles of items that were due or answered within a swap, and of the others."""
    within: list[float] = []
    between: list[float] = []
    for due, latency_ms in latencies:
        ended = due + latency_ms / 1000
        is_within = any(began <= ended and due <= over for began, over in swaps)
        (within if is_within else between).append(latency_ms)
    return {
        "items": len(latencies),
        "within": describe(within),
        "between": describe(between),
        "p99_ratio": round(percentile(within, 0.99) / percentile(between, 0.99), 3),
        "p50_ratio": round(percentile(within, 0.5) / percentile(between, 0.5), 3),
        "swap_s": round(sum(over - began - SETTLE_S for began, over in swaps) / len(swaps), 2),
    }


def describe(values: list[float]) -> dict[str, float]:
    """Count and percentiles in ms."""
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {"items": len(values)} | {name: round(percentile(values, share), 1) for name, share in shares.items()}


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of all doesn't exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


if __name__ == "__main__":
    main()
