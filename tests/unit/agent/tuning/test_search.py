"""With engines that only pretend and a clock of its own: does a search find the best in time, and refuse the wrong?"""

import random
from collections.abc import Callable, Mapping

import pytest
from shoal_agent.tuned import Limits
from shoal_agent.tuning.bench import CandidateFailed, Turn
from shoal_agent.tuning.search import Found, Goal, search
from shoal_wire.tuning import Candidate, Objective


def named(name: str, *, engine: str = "onnxruntime", threads: int = 1) -> Candidate:
    return Candidate(variant=name, engine=engine, threads=threads)


class FakeBench:
    """Candidates with set latencies, all slowed down alike as time goes by. Its clock counts what it pretends to do."""

    def __init__(
        self,
        latencies_ms: Mapping[Candidate, float],
        *,
        load_s: float = 1.0,
        drift: float = 0.0,
        slowdown: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.now = 0.0
        self.wrong: dict[Candidate, str] = {}
        self.dying: set[Candidate] = set()
        self.peaks: dict[Candidate, int] = {}
        self.turns: list[Candidate] = []
        self.checked: list[Candidate] = []
        self._latencies_ms = latencies_ms
        self._load_s = load_s
        self._drift = drift
        self._slowdown = slowdown

    def clock(self) -> float:
        return self.now

    def check(self, candidate: Candidate, *, timeout_s: float) -> None:
        self.checked.append(candidate)
        self.now += self._load_s
        if candidate in self.wrong:
            raise CandidateFailed(self.wrong[candidate])

    def turn(self, candidate: Candidate, *, seconds: float, with_rate: bool) -> Turn:
        if candidate in self.dying:
            raise CandidateFailed("worker 1 was killed by signal 11")
        self.turns.append(candidate)
        self.now += seconds
        latency_ms = self._latencies_ms[candidate] * (1 + self._drift * self.now) * self._slowdown()
        return Turn((latency_ms,) * 3, 1000 / latency_ms if with_rate else None)

    def peak_bytes(self, candidate: Candidate) -> int:
        return self.peaks.get(candidate, 1)

    def load_ms(self, candidate: Candidate) -> float:
        return self._load_s * 1000

    def drop(self, candidate: Candidate) -> None:
        pass

    def search(
        self, *, budget_s: float = 60.0, objective: Objective = "latency", limits: Limits | None = None
    ) -> Found:
        goal = Goal(objective, limits or Limits(), budget_s)
        return search(list(self._latencies_ms), self, goal=goal, clock=self.clock)


EIGHT = {named(f"v{number}"): 10.0 + 3 * number for number in (5, 2, 7, 0, 3, 6, 1, 4)}


@pytest.mark.parametrize("objective", ["latency", "throughput"])
def test_finds_the_best_and_drops_the_worst_early(objective: Objective) -> None:
    bench = FakeBench(EIGHT)
    found = bench.search(objective=objective)
    assert found.is_settled
    assert found.measured[0].candidate == named("v0")
    assert bench.turns.count(named("v7")) < bench.turns.count(named("v0"))
    assert {one.candidate for one in found.measured} == set(EIGHT)


def test_a_board_that_gets_slower_does_so_for_all() -> None:
    found = FakeBench(EIGHT, drift=0.05).search()
    assert [one.candidate.variant for one in found.measured if one.is_finalist][:2] == ["v0", "v1"]


@pytest.mark.parametrize("seed", range(8))
def test_what_else_a_board_does_hides_no_difference_of_a_twentieth(seed: int) -> None:
    chance = random.Random(seed)

    def slowdown() -> float:
        """Every turn a bit uneven, and four in ten up to three times slower."""
        return chance.uniform(1.0, 1.05) * (chance.uniform(1.0, 3.0) if chance.random() < 0.4 else 1.0)

    grid = {named(f"v{number}"): 10.0 * 1.05**number for number in range(12)}
    found = FakeBench(grid, load_s=1.5, slowdown=slowdown).search()
    assert found.measured[0].candidate == named("v0")


def test_p50_of_one_that_was_dropped_is_that_of_a_board_as_it_was_later() -> None:
    bench = FakeBench(EIGHT, drift=0.05)
    found = bench.search()
    figures = {one.candidate.variant: one.p50_ms for one in found.measured}
    assert figures["v7"] / figures["v0"] == pytest.approx(31 / 10, rel=0.15)


def test_a_turn_that_was_disturbed_in_part_counts_by_its_calm_part() -> None:
    steady, disturbed = named("steady"), named("disturbed")

    class HalfDisturbed(FakeBench):
        def turn(self, candidate: Candidate, *, seconds: float, with_rate: bool) -> Turn:
            turn = super().turn(candidate, seconds=seconds, with_rate=with_rate)
            (calm_ms, *_) = turn.latencies_ms
            late_ms = calm_ms * 4 if candidate == disturbed else calm_ms
            return Turn((late_ms, calm_ms, late_ms, calm_ms, late_ms), turn.answers_per_s)

    found = HalfDisturbed({steady: 12.0, disturbed: 10.0}).search()
    assert found.measured[0].candidate == disturbed


def test_what_answers_wrongly_is_refused_with_its_numbers_and_never_timed() -> None:
    bench = FakeBench(EIGHT)
    bench.wrong[named("v0")] = "F1 0.15, at least 0.85 wanted"
    found = bench.search()
    assert [(one.candidate, one.reason) for one in found.refused] == [(named("v0"), "F1 0.15, at least 0.85 wanted")]
    assert found.measured[0].candidate == named("v1")
    assert named("v0") not in bench.turns


def test_more_threads_of_what_was_wrong_are_not_tried() -> None:
    bench = FakeBench({named("v0"): 10.0, named("v0", threads=2): 9.0, named("v1"): 11.0})
    bench.wrong[named("v0")] = "wrong"
    found = bench.search()
    assert bench.checked.count(named("v0", threads=2)) == 0
    assert {one.candidate for one in found.refused} == {named("v0"), named("v0", threads=2)}


def test_one_that_dies_in_its_turn_is_refused_and_the_search_goes_on() -> None:
    bench = FakeBench(EIGHT)
    bench.dying.add(named("v0"))
    found = bench.search()
    assert "signal 11" in found.refused[0].reason
    assert found.measured[0].candidate == named("v1")


def test_keeps_within_the_budget_and_says_what_was_not_measured() -> None:
    bench = FakeBench(EIGHT, load_s=3.0)
    found = bench.search(budget_s=20.0)
    assert bench.now <= 21.0
    assert found.measured and len(found.measured) + len(found.refused) == len(EIGHT)
    assert all("20 s were spent" in one.reason for one in found.refused)


def test_where_time_is_short_every_engine_has_its_turn_before_more_threads() -> None:
    engines = ("onnxruntime", "openvino", "litert")
    grid = {named("v", engine=engine, threads=threads): 10.0 for engine in engines for threads in (1, 2, 4)}
    bench = FakeBench(grid, load_s=4.0)
    bench.search(budget_s=20.0)
    assert [candidate.engine for candidate in bench.checked[:3]] == list(engines)


def test_who_breaks_a_limit_for_sure_has_no_more_turns() -> None:
    bench = FakeBench(EIGHT)
    bench.peaks = {named("v0"): 100, named("v1"): 100}
    found = bench.search(limits=Limits(memory_bytes=10))
    assert next(one.candidate for one in found.measured if one.is_finalist) == named("v2")
    assert bench.turns.count(named("v0")) == 3
