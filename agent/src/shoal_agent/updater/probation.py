"""Does a release that was just switched to stay? Rules only.

Errors and deaths count absolutely. A death is that of a front, or of a worker; further ones of workers that run an item
of which one has died before, under whatever release, are not counted, so that one poisoned input can't send a release
back. A release that dies of every input dies of two different ones, which is once too often.

Latency is judged answer by answer: one above the limit is an exceedance. A release as good as the limit asks for has
exceedances in at most 5 % of its answers (the limit lies on or above its p95). The likelihood ratio of 50 % against 5 %
may be looked at after every answer: for a good release the chance that it ever reaches 10,000 is at most 1 in 10,000
(Ville, 1939; Wald's sequential probability ratio test, 1945). So a release that is far too slow goes back after a few
answers, and one that is merely near the limit is judged by its p95 in the end.
"""

import enum
import math
from typing import NamedTuple

from shoal_wire.histogram import Histogram, Sketch
from shoal_wire.messages import ProbationLimits

GOOD_EXCEEDANCE = 0.05
BAD_EXCEEDANCE = 0.5
DECISIVE_RATIO = 10_000
UNDECIDED_FACTOR = 5
"""Times the number of answers asked for: then p95 decides."""
MAX_DEATHS = 1
"""Of worker or front; one may be chance, or a poisoned input."""


class Decision(enum.Enum):
    """What probation says now."""

    GO_ON = "go-on"
    COMMIT = "commit"
    FALL_BACK = "fall-back"


class Health(NamedTuple):
    """What was counted since the release serves."""

    answers: int
    errors: int
    deaths: int
    latency_ms: Histogram
    is_serving: bool
    """Whether it serves at this moment: one that died after its last answer isn't kept."""


NOTHING_SEEN = Health(0, 0, 0, Histogram(), is_serving=False)


class Verdict(NamedTuple):
    """A decision with its reason in words and numbers, and the release's p95 where there are answers."""

    decision: Decision
    reason: str = ""
    p95_ms: float | None = None


class Baseline(NamedTuple):
    """What the release that served before has shown on this board."""

    p95_ms: float | None
    answers: int


def choose_baseline(live: Baseline, *, recorded_p95_ms: float | None, limits: ProbationLimits) -> float | None:
    """The p95 to measure against: that of the last days if it rests on enough answers, else that of its probation."""
    if live.p95_ms is not None and (live.answers >= limits.answers or recorded_p95_ms is None):
        return live.p95_ms
    return recorded_p95_ms


def judge(health: Health, *, limits: ProbationLimits, baseline_p95_ms: float | None, elapsed_s: float) -> Verdict:
    """What to do `elapsed_s` after the release began to serve. Without a baseline only counts decide."""
    p95_ms = Sketch.of(health.latency_ms).quantile(0.95)
    seen = f"{health.answers} answers in {elapsed_s:.0f} s"
    if health.errors > limits.max_errors:
        return _fall_back(f"{health.errors} errors beside {seen}, at most {limits.max_errors} allowed", p95_ms)
    if health.deaths > MAX_DEATHS:
        return _fall_back(f"its process died {health.deaths} times, {seen}", p95_ms)
    limit_ms = None if baseline_p95_ms is None else baseline_p95_ms * limits.p95_ratio
    is_slow = limit_ms is not None and p95_ms is not None and p95_ms > limit_ms
    slow_reason = _describe_latency(health, p95_ms, baseline_p95_ms, limits)
    if limit_ms is not None and log_ratio(health.latency_ms, limit_ms=limit_ms) >= math.log(DECISIVE_RATIO):
        return _fall_back(slow_reason, p95_ms)
    is_over = elapsed_s >= limits.deadline_s
    if health.answers >= limits.answers and elapsed_s >= limits.seconds:
        if not is_slow and health.is_serving:
            return Verdict(Decision.COMMIT, slow_reason, p95_ms)
        if is_slow and (is_over or health.answers >= UNDECIDED_FACTOR * limits.answers):
            return _fall_back(slow_reason, p95_ms)
    if is_over:
        serving = "" if health.is_serving else " and doesn't serve now"
        return _fall_back(f"only {seen}{serving}; {limits.answers} answers were asked for", p95_ms)
    return Verdict(Decision.GO_ON, p95_ms=p95_ms)


def log_ratio(latency_ms: Histogram, *, limit_ms: float) -> float:
    """Natural logarithm of the likelihood ratio of the latencies: `BAD_EXCEEDANCE` against `GOOD_EXCEEDANCE`."""
    answers = latency_ms.zeros + sum(latency_ms.counts)
    above = count_above(latency_ms, limit_ms=limit_ms)
    return above * math.log(BAD_EXCEEDANCE / GOOD_EXCEEDANCE) + (answers - above) * math.log(
        (1 - BAD_EXCEEDANCE) / (1 - GOOD_EXCEEDANCE)
    )


def count_above(latency_ms: Histogram, *, limit_ms: float) -> int:
    """Values in bins above the one that the limit lies in: those up to 2 % above the limit may be left out."""
    limit = Sketch()
    limit.add(limit_ms)
    limit_keys = limit.histogram().keys
    if not limit_keys:
        return sum(latency_ms.counts)
    return sum(count for key, count in zip(latency_ms.keys, latency_ms.counts, strict=True) if key > limit_keys[0])


def _fall_back(reason: str, p95_ms: float | None) -> Verdict:
    return Verdict(Decision.FALL_BACK, reason, p95_ms)


def _describe_latency(
    health: Health, p95_ms: float | None, baseline_p95_ms: float | None, limits: ProbationLimits
) -> str:
    if p95_ms is None or baseline_p95_ms is None:
        return f"{health.answers} answers, {health.errors} errors, no latency to compare with"
    return (
        f"p95 {baseline_p95_ms:.0f} → {p95_ms:.0f} ms on {health.answers} answers, "
        f"limit {baseline_p95_ms * limits.p95_ratio:.0f} ms ({limits.p95_ratio:.1f} × the previous release)"
    )
