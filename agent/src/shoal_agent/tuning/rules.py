"""Which candidates are worth another round, and which one serves best? Rules only.

Four figures count: p50 latency, sustained rate, peak memory, energy for an answer. All are turned so that less is
better. Two figures within TIE of each other are equal: no reader of the clock can tell them apart for long.

What else a board does makes a candidate slower and never faster, and does so in bursts. So of a candidate's rounds the
better half speaks for it (`typical`): half is no luck, and on a busy board it repeats better than a median does.
Rounds are compared as they are, not with what the others did in them: all had the same rounds, so that a board which
gets warmer slows down the better halves of all alike, while one burst in the turn of somebody else would count as
merit.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from shoal_wire.tuning import Candidate, Objective

from shoal_agent.tuned import Choice, Limits, Measured

TIE = 0.01
MARGIN = 0.20
"""Who is that near to the leader after MARGIN_ROUNDS isn't dropped by halving: so few rounds can't tell them apart."""
MARGIN_ROUNDS = 9
WORTH = 0.02
"""Nobody who may be better than the leader by less is worth more time."""
CHANCE = 0.005
"""Of taking a leader for settled who isn't, at each look and for each other candidate."""

COST: Mapping[Objective, Callable[[Measured], float]] = {
    "latency": lambda measured: measured.p50_ms,
    "throughput": lambda measured: -measured.answers_per_s,
    "memory": lambda measured: float(measured.peak_bytes),
    "energy": lambda measured: 0.0 if measured.joules is None else measured.joules,
}
"""What an objective wants little of. Without a meter energy is no figure, and everybody's is 0."""

WORDS: Mapping[Objective, Callable[[Measured], str]] = {
    "latency": lambda measured: f"p50 {measured.p50_ms:.2f} ms",
    "throughput": lambda measured: f"{measured.answers_per_s:.2f} answers/s",
    "memory": lambda measured: f"{measured.peak_bytes / 1e6:.0f} MB at its peak",
    "energy": lambda measured: f"{measured.joules or 0.0:.3g} J an answer",
}


def dominates(one: Measured, other: Measured) -> bool:
    """Whether `one` is as good as `other` in every figure, and better in some."""
    costs = [(cost(one), cost(other)) for cost in COST.values()]
    return all(a <= b for a, b in costs) and any(a < b for a, b in costs)


def pareto_set(measured: Sequence[Measured]) -> tuple[Measured, ...]:
    """Those that no other dominates, in the order given."""
    return tuple(one for one in measured if not any(dominates(other, one) for other in measured))


def broken_limits(measured: Measured, limits: Limits) -> tuple[str, ...]:
    """The limits that a candidate doesn't meet, in words with both numbers."""
    broken = []
    if limits.p95_ms is not None and measured.p95_ms > limits.p95_ms:
        broken.append(f"p95 {measured.p95_ms:.2f} ms, at most {limits.p95_ms:g} ms allowed")
    if limits.memory_bytes is not None and measured.peak_bytes > limits.memory_bytes:
        broken.append(f"{measured.peak_bytes / 1e6:.0f} MB, at most {limits.memory_bytes / 1e6:g} MB allowed")
    return tuple(broken)


def choose(measured: Sequence[Measured], *, objective: Objective, limits: Limits) -> Choice:
    """The best for an objective among those that meet the limits. Of equals the one that does well in the rest.

    `measured` must not be empty.
    """
    fitting = [one for one in measured if not broken_limits(one, limits)]
    if not fitting:
        return Choice(candidate=None, why=_why_nobody(measured, limits))
    best = min(COST[objective](one) for one in fitting)
    equals = [one for one in fitting if COST[objective](one) <= best + abs(best) * TIE]
    order: tuple[Objective, ...] = ("latency", "throughput", "memory", "energy")
    rest = [COST[name] for name in order if name != objective] + [COST[objective]]
    chosen = min(equals, key=lambda one: tuple(cost(one) for cost in rest))
    return Choice(
        candidate=chosen.candidate, why=_why(chosen, measured, fitting=fitting, equals=equals, objective=objective)
    )


def typical(values: Sequence[float]) -> float:
    """Mean of the better half; of an odd number the one in the middle belongs to it."""
    return statistics.fmean(sorted(values)[: (len(values) + 1) // 2])


def level_out(values: Mapping[Candidate, Sequence[float]], *, leader: Candidate) -> dict[Candidate, float]:
    """The typical value of each candidate, so that all can be compared though some were dropped early.

    Those had the first of the leader's rounds: their typical value is multiplied by what became of the leader's since.
    """
    whole = typical(values[leader])
    return {
        candidate: typical(own) * (whole / (typical(values[leader][: len(own)]) or 1.0))
        for candidate, own in values.items()
    }


def rank(scores: Mapping[Candidate, Sequence[float]]) -> list[Candidate]:
    """Candidates by the typical score of their rounds, the least first."""
    return sorted(scores, key=lambda candidate: typical(scores[candidate]))


def halve(scores: Mapping[Candidate, Sequence[float]]) -> list[Candidate]:
    """Who goes on: the better half, two at least, and whoever was near to the leader in its best rounds.

    How near is for the number of rounds to say: the error of a mean shrinks with its root.
    """
    ranking = rank(scores)
    best = typical(scores[ranking[0]])
    margin = MARGIN * math.sqrt(MARGIN_ROUNDS / len(scores[ranking[0]]))
    kept = max(2, (len(ranking) + 1) // 2)
    return [
        candidate
        for place, candidate in enumerate(ranking)
        if place < kept or _at_its_best(scores[candidate]) <= best + abs(best) * margin
    ]


def is_settled(scores: Mapping[Candidate, Sequence[float]]) -> bool:
    """Whether more rounds would hardly change who leads.

    For each other candidate a sign test says that it isn't better than the leader by more than WORTH: it was so in no
    more rounds than chance would give with probability CHANCE, were it so in half of them. Eight rounds without one
    suffice. And who led in one half of the time was as good as any in the other half: what a board does besides goes
    on for longer than a round.
    """
    leader = rank(scores)[0]
    return _repeats(scores) and all(
        _is_no_better(values, leader=scores[leader]) for candidate, values in scores.items() if candidate != leader
    )


def _at_its_best(values: Sequence[float]) -> float:
    """Mean of the best quarter, at least of one."""
    return statistics.fmean(sorted(values)[: (len(values) + 3) // 4])


def _is_no_better(values: Sequence[float], *, leader: Sequence[float]) -> bool:
    better = sum(one < best - abs(best) * WORTH for one, best in zip(values, leader, strict=True))
    ways = sum(math.comb(len(values), count) for count in range(better + 1))
    return bool(ways / 2 ** len(values) <= CHANCE)


def _repeats(scores: Mapping[Candidate, Sequence[float]]) -> bool:
    rounds = len(next(iter(scores.values())))
    if rounds < 2:
        return len(scores) == 1
    halves = [{one: values[part] for one, values in scores.items()} for part in _halves(rounds)]
    leaders = [rank(half)[0] for half in halves]
    bests = [typical(half[leader]) for half, leader in zip(halves, leaders, strict=True)]
    others = [typical(half[leader]) for half, leader in zip(halves, reversed(leaders), strict=True)]
    return all(other <= best + abs(best) * WORTH for other, best in zip(others, bests, strict=True))


def _halves(rounds: int) -> tuple[slice, slice]:
    return slice(0, rounds // 2), slice(rounds // 2, rounds)


def _why(
    chosen: Measured,
    measured: Sequence[Measured],
    *,
    fitting: Sequence[Measured],
    equals: Sequence[Measured],
    objective: Objective,
) -> str:
    figure = WORDS[objective]
    words = f"best for {objective} of {len(fitting)}: {figure(chosen)}"
    if len(equals) > 1:
        words += f", within {TIE:.0%} of {len(equals) - 1} more and better than they are in the rest"
    others = sorted((one for one in fitting if one not in equals), key=COST[objective])
    if others:
        words += f"; next is {others[0].candidate} with {figure(others[0])}"
    if len(fitting) < len(measured):
        words += f"; {len(measured) - len(fitting)} more break a limit"
    return words


def _why_nobody(measured: Sequence[Measured], limits: Limits) -> str:
    """Names the limit that nobody meets; or, where each is met by somebody, that nobody meets both."""
    fastest = min(measured, key=lambda one: one.p95_ms)
    smallest = min(measured, key=lambda one: one.peak_bytes)
    singles = ((fastest, Limits(p95_ms=limits.p95_ms)), (smallest, Limits(memory_bytes=limits.memory_bytes)))
    words = [
        f"nobody meets it: the nearest, {one.candidate}, has {text}"
        for one, single in singles
        for text in broken_limits(one, single)
    ]
    if words:
        return "; ".join(words)
    broken = broken_limits(fastest, limits) + broken_limits(smallest, limits)
    return f"each limit is met by somebody, both by nobody: {'; '.join(broken)}"
