"""Does probation keep what is as good as before, and send back what isn't?

Latencies are drawn from log-normal distributions with fixed seeds. What a verdict must be follows from how they were
drawn, not from the rule.
"""

import math
import random

import hypothesis.strategies as st
import pytest
from hypothesis import given
from shoal_agent.updater.probation import (
    DECISIVE_RATIO,
    Baseline,
    Decision,
    Health,
    Verdict,
    choose_baseline,
    count_above,
    judge,
    log_ratio,
)
from shoal_wire.histogram import Histogram, Sketch
from shoal_wire.messages import ProbationLimits

LIMITS = ProbationLimits(answers=20, seconds=5.0, p95_ratio=2.0, max_errors=0, deadline_s=900.0)
SIGMA = 0.3
MEDIAN_MS = 50.0
BASELINE_P95_MS = MEDIAN_MS * math.exp(1.6449 * SIGMA)
"""95th percentile of the distribution that baselines are drawn from; 1.6449 is that of the standard normal one."""


def histogram(values: list[float]) -> Histogram:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch.histogram()


def health(values: list[float], *, errors: int = 0, deaths: int = 0, is_serving: bool = True) -> Health:
    return Health(len(values), errors, deaths, histogram(values), is_serving)


def decide(values: list[float], *, elapsed_s: float = 10.0, limits: ProbationLimits = LIMITS) -> Verdict:
    return judge(health(values), limits=limits, baseline_p95_ms=50.0, elapsed_s=elapsed_s)


def run_probation(generator: random.Random, *, ratio: float) -> tuple[Decision, int]:
    """Look after every answer, one a second; decision and number of answers."""
    values: list[float] = []
    while True:
        values.append(generator.lognormvariate(math.log(MEDIAN_MS * ratio), SIGMA))
        verdict = judge(health(values), limits=LIMITS, baseline_p95_ms=BASELINE_P95_MS, elapsed_s=float(len(values)))
        if verdict.decision is not Decision.GO_ON:
            return verdict.decision, len(values)


def test_release_as_fast_as_the_previous_one_is_kept() -> None:
    generator = random.Random(1)
    decisions = [run_probation(generator, ratio=1.0) for _ in range(500)]
    assert sum(decision is Decision.FALL_BACK for decision, _ in decisions) <= 1
    assert {answers for _, answers in decisions} == {LIMITS.answers}


def test_release_whose_p95_lies_on_the_limit_is_rarely_sent_back_before_p95_decides() -> None:
    generator = random.Random(2)
    early = [run_probation(generator, ratio=2.0)[1] < LIMITS.answers for _ in range(500)]
    assert sum(early) <= 1


def test_release_ten_times_slower_is_always_sent_back_after_a_few_answers() -> None:
    generator = random.Random(3)
    decisions = [run_probation(generator, ratio=10.0) for _ in range(500)]
    assert {decision for decision, _ in decisions} == {Decision.FALL_BACK}
    # ln(10,000) / ln(0.5 / 0.05) = 4 answers, all above the limit
    assert {answers for _, answers in decisions} == {4}


def test_release_four_times_slower_is_always_sent_back() -> None:
    generator = random.Random(4)
    assert {run_probation(generator, ratio=4.0)[0] for _ in range(200)} == {Decision.FALL_BACK}


def test_answers_and_seconds_must_both_be_enough() -> None:
    assert decide([50.0] * 19).decision is Decision.GO_ON
    assert decide([50.0] * 20, elapsed_s=4.9).decision is Decision.GO_ON
    verdict = decide([50.0] * 20)
    assert verdict.decision is Decision.COMMIT
    assert verdict.p95_ms == pytest.approx(50.0, rel=0.01)


def test_reason_of_a_slow_release_has_the_numbers() -> None:
    verdict = decide([640.0] * 4)
    assert verdict.decision is Decision.FALL_BACK
    slow = Sketch.of(histogram([640.0])).quantile(0.95)
    assert verdict.reason == f"p95 50 → {slow:.0f} ms on 4 answers, limit 100 ms (2.0 × the previous release)"


def test_undecided_latency_goes_on_until_p95_decides() -> None:
    """One answer in ten above the limit: p95 is over it, and far from evidence for one in two."""
    values = ([50.0] * 9 + [150.0]) * 10
    assert decide(values[:20]).decision is Decision.GO_ON
    assert decide(values[:90]).decision is Decision.GO_ON
    assert decide(values[:100]).decision is Decision.FALL_BACK


def test_undecided_latency_is_decided_at_the_deadline() -> None:
    values = ([50.0] * 9 + [150.0]) * 2
    assert decide(values, elapsed_s=900.0).decision is Decision.FALL_BACK


def test_errors_send_a_release_back_at_once() -> None:
    verdict = judge(health([50.0], errors=1), limits=LIMITS, baseline_p95_ms=None, elapsed_s=1.0)
    assert verdict.decision is Decision.FALL_BACK
    assert verdict.reason == "1 errors beside 1 answers in 1 s, at most 0 allowed"


def test_one_death_is_borne_and_a_second_is_not() -> None:
    once = judge(health([50.0], deaths=1), limits=LIMITS, baseline_p95_ms=None, elapsed_s=1.0)
    twice = judge(health([50.0], deaths=2), limits=LIMITS, baseline_p95_ms=None, elapsed_s=1.0)
    assert (once.decision, twice.decision) == (Decision.GO_ON, Decision.FALL_BACK)
    assert "died 2 times" in twice.reason


def test_too_few_answers_until_the_deadline_send_a_release_back() -> None:
    verdict = decide([50.0] * 3, elapsed_s=900.0)
    assert verdict.decision is Decision.FALL_BACK
    assert verdict.reason == "only 3 answers in 900 s; 20 answers were asked for"


def test_without_a_baseline_only_counts_decide() -> None:
    verdict = judge(health([9_000.0] * 20), limits=LIMITS, baseline_p95_ms=None, elapsed_s=5.0)
    assert verdict.decision is Decision.COMMIT


def test_release_that_does_not_serve_now_is_not_kept() -> None:
    silent = health([50.0] * 20, is_serving=False)
    assert judge(silent, limits=LIMITS, baseline_p95_ms=50.0, elapsed_s=5.0).decision is Decision.GO_ON
    verdict = judge(silent, limits=LIMITS, baseline_p95_ms=50.0, elapsed_s=900.0)
    assert verdict.decision is Decision.FALL_BACK and "doesn't serve now" in verdict.reason


@given(st.lists(st.floats(1.0, 10_000.0), max_size=60), st.floats(1.0, 10_000.0))
def test_values_above_a_limit_are_counted_but_for_those_in_its_bin(values: list[float], limit_ms: float) -> None:
    counted = count_above(histogram(values), limit_ms=limit_ms)
    assert sum(value > limit_ms * 1.0203 for value in values) <= counted <= sum(value > limit_ms for value in values)


@given(st.integers(0, 200), st.integers(0, 200))
def test_likelihood_ratio_is_that_of_two_coins(above: int, below: int) -> None:
    ratio = log_ratio(histogram([500.0] * above + [50.0] * below), limit_ms=100.0)
    assert ratio == pytest.approx(above * math.log(10.0) + below * math.log(0.5 / 0.95))


def test_zero_latency_counts_as_fast() -> None:
    assert log_ratio(histogram([0.0, 0.0]), limit_ms=100.0) < 0
    assert math.log(DECISIVE_RATIO) > 0


@given(st.integers(0, 2), st.integers(0, 2), st.floats(0.0, 2_000.0), st.lists(st.floats(0.0, 1e4), max_size=150))
def test_past_the_deadline_there_is_always_a_decision(
    errors: int, deaths: int, elapsed_s: float, values: list[float]
) -> None:
    verdict = judge(
        health(values, errors=errors, deaths=deaths), limits=LIMITS, baseline_p95_ms=50.0, elapsed_s=elapsed_s
    )
    assert verdict.decision is not Decision.GO_ON or elapsed_s < LIMITS.deadline_s
    assert verdict.reason or verdict.decision is Decision.GO_ON


@pytest.mark.parametrize(
    ("live", "recorded", "expected"),
    [
        (Baseline(60.0, 20), 50.0, 60.0),
        (Baseline(60.0, 19), 50.0, 50.0),
        (Baseline(60.0, 19), None, 60.0),
        (Baseline(None, 0), 50.0, 50.0),
        (Baseline(None, 0), None, None),
    ],
)
def test_baseline_is_the_newest_that_rests_on_enough_answers(
    live: Baseline, recorded: float | None, expected: float | None
) -> None:
    assert choose_baseline(live, recorded_p95_ms=recorded, limits=LIMITS) == expected
