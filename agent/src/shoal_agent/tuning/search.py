"""Which of many candidates is the best, found within a time budget?

Golden cases first: what answers wrongly isn't timed. Then rounds in which every candidate that is left has one turn, in
an order that changes, so that a board which gets warmer or busier does so for all. After some rounds the worse half is
dropped (successive halving: Jamieson and Talwalkar, AISTATS 2016). It ends when nobody who is left can be expected to
pass the leader (`rules.is_settled`), or when the budget is spent.
"""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from shoal_wire.tuning import Candidate, Objective

from shoal_agent.tuned import Limits, Measured, Refused
from shoal_agent.tuning.bench import CandidateFailed, Turn
from shoal_agent.tuning.grid import spread
from shoal_agent.tuning.rules import halve, is_settled, level_out, rank

ROUNDS_A_RUNG = 3
LOAD_SHARE = 0.6
"""Of the budget that loading and golden cases may take; candidates that had no turn by then are refused."""
NEED_RATE: tuple[Objective, ...] = ("throughput", "energy")
"""Objectives for which every turn measures the sustained rate; else the first round of each rung does."""
MAX_REASON = 4000
TURN_S = (0.08, 0.25)
"""Least and longest time of a turn. Many short ones tell more than few long ones: a burst of other work spoils one."""
CALM = 0.25
"""The part of a turn's latencies that the board's other work disturbed least; the longest of it is the turn's."""
ROUNDS_PLANNED = 12
"""For every candidate, when the length of a turn is planned; halving leaves more of them to the better ones."""


class Timed(Protocol):
    """Loads and times candidates; see `bench.Bench`."""

    def check(self, candidate: Candidate, *, timeout_s: float) -> None:
        """Raises CandidateFailed."""

    def turn(self, candidate: Candidate, *, seconds: float, with_rate: bool) -> Turn:
        """Raises CandidateFailed."""

    def peak_bytes(self, candidate: Candidate) -> int:
        """So far."""

    def load_ms(self, candidate: Candidate) -> float:
        """The last time."""

    def drop(self, candidate: Candidate) -> None:
        """No more turns."""


class Goal(NamedTuple):
    """What is looked for, and for how long at most."""

    objective: Objective
    limits: Limits
    budget_s: float


class Found(NamedTuple):
    """What a search found: the best first, finalists before the others."""

    measured: tuple[Measured, ...]
    refused: tuple[Refused, ...]
    is_settled: bool


@dataclass
class _Seen:
    """All turns of one candidate."""

    latencies_ms: list[float] = field(default_factory=list)
    medians_ms: list[float] = field(default_factory=list)
    """Of the latencies of each round."""
    calm_ms: list[float] = field(default_factory=list)
    """See `_calm_ms`, of each round."""
    rates: list[float] = field(default_factory=list)
    joules: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    peak_bytes: int = 0
    load_ms: float = 0.0
    placement: tuple[str, ...] = ()


def search(
    candidates: Sequence[Candidate],
    timed: Timed,
    *,
    goal: Goal,
    clock: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = lambda _: None,
) -> Found:
    """Measure the candidates. `tell` hears, in a line each, how far it has come."""
    return _Search(timed, goal=goal, clock=clock, tell=tell).run(candidates)


class _Search:
    def __init__(self, timed: Timed, *, goal: Goal, clock: Callable[[], float], tell: Callable[[str], None]) -> None:
        self._timed = timed
        self._goal = goal
        self._clock = clock
        self._tell = tell
        self._ends_at = clock() + goal.budget_s
        self._seen: dict[Candidate, _Seen] = {}
        self._refused: list[Refused] = []

    def run(self, candidates: Sequence[Candidate]) -> Found:
        alive = self._check(spread(candidates))
        settled = False
        turn_s = self._plan_turn_s(len(alive))
        while alive and not settled:
            for number in range(ROUNDS_A_RUNG):
                alive = self._round(alive, seconds=turn_s, is_first=number == 0)
            alive = self._keep(alive)
            settled = bool(alive) and is_settled(self._scores(alive))
            if self._clock() >= self._ends_at:
                break
        return self._result(alive, settled=settled)

    def _check(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Those that answer right. The first is tried whatever the budget."""
        stop_at = self._ends_at - self._goal.budget_s * (1 - LOAD_SHARE)
        right: list[Candidate] = []
        wrong: dict[tuple[str, ...], Candidate] = {}
        for candidate in candidates:
            kind = (candidate.variant, candidate.engine, candidate.device, candidate.precision)
            left_s = stop_at - self._clock()
            if right and left_s <= 0:
                self._refuse(
                    candidate, f"not measured: {LOAD_SHARE:.0%} of the {self._goal.budget_s:g} s were spent before"
                )
            elif kind in wrong:
                self._refuse(candidate, f"not tried: {wrong[kind]} was refused")
            else:
                try:
                    self._timed.check(candidate, timeout_s=max(left_s, self._goal.budget_s / 2))
                except CandidateFailed as error:
                    wrong[kind] = candidate
                    self._refuse(candidate, str(error))
                    continue
                right.append(candidate)
                self._seen[candidate] = _Seen()
                self._tell(f"{candidate}: golden cases passed")
        return right

    def _plan_turn_s(self, candidates: int) -> float:
        least, longest = TURN_S
        return max(least, min(longest, (self._ends_at - self._clock()) / max(1, candidates * ROUNDS_PLANNED)))

    def _round(self, alive: Sequence[Candidate], *, seconds: float, is_first: bool) -> list[Candidate]:
        """One turn each. A round that the budget cuts short doesn't count, unless it is the very first."""
        rounds = max((len(self._seen[one].scores) for one in alive), default=0)
        with_rate = is_first or self._goal.objective in NEED_RATE
        first = rounds % len(alive) if alive else 0
        order = [*alive[first:], *alive[:first]]
        turns: dict[Candidate, Turn] = {}
        for candidate in order if rounds % 2 == 0 else reversed(order):
            if self._clock() >= self._ends_at and (rounds or turns):
                if rounds:
                    return [one for one in alive if one in self._seen]
                self._forget(candidate, f"not measured: the {self._goal.budget_s:g} s were spent before its turn")
                continue
            try:
                turns[candidate] = self._timed.turn(candidate, seconds=seconds, with_rate=with_rate)
            except CandidateFailed as error:
                self._forget(candidate, str(error))
        for candidate, turn in turns.items():
            self._note(candidate, turn)
        return [candidate for candidate in alive if candidate in turns]

    def _note(self, candidate: Candidate, turn: Turn) -> None:
        seen = self._seen[candidate]
        seen.latencies_ms += turn.latencies_ms
        seen.medians_ms.append(statistics.median(turn.latencies_ms))
        seen.calm_ms.append(_calm_ms(turn))
        if turn.answers_per_s is not None:
            seen.rates.append(turn.answers_per_s)
        if turn.joules is not None:
            seen.joules.append(turn.joules)
        seen.peak_bytes = self._timed.peak_bytes(candidate)
        seen.load_ms = self._timed.load_ms(candidate)
        seen.placement = turn.placement
        seen.scores.append(_score(turn, objective=self._goal.objective, peak_bytes=seen.peak_bytes))

    def _keep(self, alive: Sequence[Candidate]) -> list[Candidate]:
        """Those for the next rung: of those who may meet the limits, or of all if nobody can, the better half."""
        hopeful = [one for one in alive if not self._is_hopeless(one)] or list(alive)
        kept = halve(self._scores(hopeful)) if hopeful else []
        for candidate in alive:
            if candidate not in kept:
                self._timed.drop(candidate)
        rounds = max((len(self._seen[one].scores) for one in kept), default=0)
        if kept:
            self._tell(f"after {rounds} rounds {len(kept)} of {len(alive)} go on, {kept[0]} leads")
        return kept

    def _scores(self, alive: Sequence[Candidate]) -> dict[Candidate, list[float]]:
        """Everybody who is left had the same rounds."""
        return {one: self._seen[one].scores for one in alive}

    def _is_hopeless(self, candidate: Candidate) -> bool:
        """Peaks only grow, and a p95 isn't below its p50."""
        seen, limits = self._seen[candidate], self._goal.limits
        if limits.memory_bytes is not None and seen.peak_bytes > limits.memory_bytes:
            return True
        return limits.p95_ms is not None and statistics.median(seen.medians_ms) > limits.p95_ms

    def _refuse(self, candidate: Candidate, reason: str) -> None:
        self._refused.append(Refused(candidate=candidate, reason=reason[:MAX_REASON]))
        self._tell(f"{candidate}: refused: {reason}")

    def _forget(self, candidate: Candidate, reason: str) -> None:
        """It failed, or had no turn: what was seen of it doesn't count."""
        del self._seen[candidate]
        self._refuse(candidate, reason)

    def _result(self, finalists: Sequence[Candidate], *, settled: bool) -> Found:
        leaders = rank(self._scores(finalists))
        others = {one: seen.scores for one, seen in self._seen.items() if seen.scores and one not in finalists}
        places = [*leaders, *rank(others)]
        figures = _figures({one: self._seen[one] for one in places})
        return Found(
            measured=tuple(
                _summarise(one, self._seen[one], figures=figures[one], is_finalist=one in finalists) for one in places
            ),
            refused=tuple(self._refused),
            is_settled=settled,
        )


def _score(turn: Turn, *, objective: Objective, peak_bytes: int) -> float:
    """What the objective says of one turn; less is better. See `rules.COST`."""
    scores: Mapping[Objective, float | None] = {
        "latency": _calm_ms(turn),
        "throughput": None if turn.answers_per_s is None else -turn.answers_per_s,
        "memory": float(peak_bytes),
        "energy": turn.joules,
    }
    score = scores[objective]
    return float("inf") if score is None else score


def _calm_ms(turn: Turn) -> float:
    """The quartile of a turn's latencies. It is a little steadier than their median where other work goes on."""
    ordered = sorted(turn.latencies_ms)
    return ordered[int(CALM * (len(ordered) - 1))]


class _Figures(NamedTuple):
    """Of a candidate, as all of them would be at one time."""

    p50_ms: float
    answers_per_s: float


def _figures(seen: Mapping[Candidate, _Seen]) -> dict[Candidate, _Figures]:
    """How candidates compare is told by their calm latencies; how long an answer takes by the first one's medians."""
    if not seen:
        return {}
    leader = next(iter(seen))
    calm_ms = level_out({one: its.calm_ms for one, its in seen.items()}, leader=leader)
    rates = level_out({one: [-rate for rate in its.rates] for one, its in seen.items()}, leader=leader)
    stretch = max(1.0, statistics.median(seen[leader].medians_ms) / calm_ms[leader])
    return {one: _Figures(calm_ms[one] * stretch, -rates[one]) for one in seen}


def _summarise(candidate: Candidate, seen: _Seen, *, figures: _Figures, is_finalist: bool) -> Measured:
    ordered = sorted(seen.latencies_ms)
    return Measured(
        candidate=candidate,
        rounds=len(seen.scores),
        is_finalist=is_finalist,
        p50_ms=figures.p50_ms,
        p95_ms=max(figures.p50_ms, ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]),
        answers_per_s=figures.answers_per_s,
        peak_bytes=seen.peak_bytes,
        load_ms=seen.load_ms,
        joules=statistics.median(seen.joules) if seen.joules else None,
        placement=seen.placement,
    )
