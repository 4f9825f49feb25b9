"""What does a measurement never do to the board?"""

from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace
from shoal_agent.front.admission import Room
from shoal_agent.front.operations.values import Prepared
from shoal_agent.front.worker import LOAD_TIMEOUT_S, Worker
from shoal_agent.tuning.bench import Bench, CandidateFailed, LoadedFiles
from shoal_agent.tuning.meters import NoMeter
from shoal_agent.tuning.task import Run
from shoal_wire.tuning import Candidate
from shoal_worker.messages import Loaded

ONE_CALL = Prepared(calls=({},), context=None)
CANDIDATE = Candidate(variant="huge", engine="onnxruntime", threads=1)


class OneCall:
    """A task of one call without inputs."""

    items = 1

    def check(self, run: Run, *, candidate: Candidate) -> str:
        run(ONE_CALL)
        return ""

    def answer(self, number: int, run: Run) -> None:
        run(ONE_CALL)


class FakeBoard:
    """Memory of which each worker takes 1,000 MB, and workers that answer at once."""

    def __init__(self, *, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self.loaded: list[str] = []
        self.timeouts_s: list[float] = []
        self.devices: list[str] = []

    def room(self) -> Room:
        return Room((self._memory_mb - 1000 * len(self.loaded)) * 1_000_000)

    def start(self, interpreter: str, *, timeout_s: float, **options: Any) -> Worker:
        self.timeouts_s.append(timeout_s)
        self.devices.append(options["options"].device)
        self.loaded.append(options["engine"])
        return cast(Worker, FakeWorker(options["engine"], self.loaded))


class FakeWorker:
    peak_bytes = 1
    info = Loaded("e", "1", ("GPU.0", "CPU"), ("CPU", "GPU"), (), (), 1.0, 1)

    def __init__(self, engine: str, loaded: list[str]) -> None:
        self._engine = engine
        self._loaded = loaded

    def run(self, feeds: object, *, deadline_s: float) -> dict[str, object]:
        return {}

    def measure(self) -> None:
        """It stays as big as it is."""

    def close(self) -> None:
        self._loaded.remove(self._engine)


def bench_on(board: FakeBoard, *, deadline_s: float = 1.0) -> Bench:
    files = LoadedFiles(model_format="onnx", fds=(-1,), size_bytes=(1,), measured_bytes=1_000_000_000)
    return Bench(
        {"v": files},
        task=OneCall(),
        interpreters={},
        own="/nowhere/python",
        deadline_s=deadline_s,
        meter=NoMeter(),
        start=board.start,
        room=board.room,
    )


def named(engine: str) -> Candidate:
    return Candidate(variant="v", engine=engine, threads=1)


@pytest.mark.parametrize(
    ("memory_mb", "loaded"),
    [
        (1102, ["b"]),  # each alone, beside the reserve of 101 MB
        (3100, ["b"]),
        (3102, ["a", "b"]),  # two, one more of them, and the reserve
    ],
)
def test_candidates_stay_loaded_while_one_more_of_the_biggest_fits_beside_them(
    memory_mb: int, loaded: list[str]
) -> None:
    board = FakeBoard(memory_mb=memory_mb)
    bench = bench_on(board)
    bench.check(named("a"), timeout_s=1.0)
    bench.check(named("b"), timeout_s=1.0)
    assert board.loaded == loaded


def test_a_candidate_alone_leaves_the_reserve_free() -> None:
    with pytest.raises(CandidateFailed, match="beside 101 MB in reserve; 1100 MB are available"):
        bench_on(FakeBoard(memory_mb=1100)).check(named("a"), timeout_s=1.0)


def test_a_candidate_is_loaded_on_its_device_and_a_turn_says_where_it_ran() -> None:
    board = FakeBoard(memory_mb=3100)
    bench = bench_on(board)
    for device in ("", "GPU"):
        turn = bench.turn(replace(named("a"), device=device), seconds=0.001, with_rate=False)
        assert turn.placement == ("GPU.0", "CPU")
    assert board.devices == ["", "GPU"]


def test_a_candidate_that_made_way_may_load_for_longer_than_an_inference_may_take() -> None:
    board = FakeBoard(memory_mb=1102)
    bench = bench_on(board, deadline_s=0.25)
    bench.check(named("a"), timeout_s=7.0)
    bench.check(named("b"), timeout_s=7.0)
    bench.turn(named("a"), seconds=0.001, with_rate=False)
    assert board.timeouts_s == [7.0, 7.0, LOAD_TIMEOUT_S]


@pytest.mark.parametrize(
    "ask",
    [
        lambda bench: bench.check(CANDIDATE, timeout_s=1.0),
        lambda bench: bench.turn(CANDIDATE, seconds=0.1, with_rate=False),
    ],
    ids=["check", "turn"],
)
def test_a_model_that_does_not_fit_beside_what_serves_is_refused_with_both_numbers(
    ask: Callable[[Bench], object],
) -> None:
    files = LoadedFiles(model_format="onnx", fds=(-1,), size_bytes=(1,), measured_bytes=1 << 60)
    bench = Bench(
        {"huge": files}, task=OneCall(), interpreters={}, own="/nowhere/python", deadline_s=1.0, meter=NoMeter()
    )
    with pytest.raises(
        CandidateFailed, match=r"needs 1152921504607 MB \(measured\) of memory beside 101 MB in reserve; \d+ MB are "
    ):
        ask(bench)
