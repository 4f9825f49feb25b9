"""Is a choice never beaten, does it keep to its limits, and does halving keep the best?"""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.tuned import Limits, Measured
from shoal_agent.tuning.rules import (
    MARGIN,
    MARGIN_ROUNDS,
    TIE,
    choose,
    halve,
    is_settled,
    level_out,
    pareto_set,
    rank,
    typical,
)
from shoal_wire.tuning import Candidate, Objective


def named(number: int) -> Candidate:
    return Candidate(variant=f"v{number}", engine="onnxruntime", threads=1)


def measured(
    number: int,
    *,
    p50_ms: float = 10.0,
    p95_ms: float | None = None,
    answers_per_s: float = 10.0,
    peak_bytes: int = 100_000_000,
    joules: float | None = None,
) -> Measured:
    return Measured(
        candidate=named(number),
        rounds=6,
        is_finalist=True,
        p50_ms=p50_ms,
        p95_ms=p50_ms * 1.5 if p95_ms is None else p95_ms,
        answers_per_s=answers_per_s,
        peak_bytes=peak_bytes,
        load_ms=1.0,
        joules=joules,
    )


figures = st.tuples(
    st.integers(1, 6).map(float), st.integers(1, 6).map(float), st.integers(1, 6), st.integers(1, 6).map(float)
)


@st.composite
def boards(draw: st.DrawFn) -> list[Measured]:
    """Few distinct figures, so that there are ties and candidates that others beat."""
    has_meter = draw(st.booleans())
    return [
        measured(number, p50_ms=ms, answers_per_s=rate, peak_bytes=peak, joules=joules if has_meter else None)
        for number, (ms, rate, peak, joules) in enumerate(draw(st.lists(figures, min_size=1, max_size=12)))
    ]


limits = st.builds(Limits, p95_ms=st.none() | st.floats(1, 10), memory_bytes=st.none() | st.integers(1, 7))
objectives = st.sampled_from(["latency", "throughput", "memory", "energy"])


def as_good(one: Measured, other: Measured) -> bool:
    return (
        one.p50_ms <= other.p50_ms
        and one.answers_per_s >= other.answers_per_s
        and one.peak_bytes <= other.peak_bytes
        and (one.joules or 0) <= (other.joules or 0)
    )


def beats(one: Measured, other: Measured) -> bool:
    return as_good(one, other) and not as_good(other, one)


def meets(one: Measured, wanted: Limits) -> bool:
    is_fast = wanted.p95_ms is None or one.p95_ms <= wanted.p95_ms
    return is_fast and (wanted.memory_bytes is None or one.peak_bytes <= wanted.memory_bytes)


@given(boards())
def test_nobody_beats_a_member_of_the_pareto_set(board: list[Measured]) -> None:
    members = pareto_set(board)
    assert members
    assert not any(beats(other, member) for member in members for other in board)


@given(boards())
def test_whoever_is_left_out_of_the_pareto_set_is_beaten_by_a_member(board: list[Measured]) -> None:
    members = pareto_set(board)
    assert all(any(beats(member, one) for member in members) for one in board if one not in members)


@given(boards(), objectives, limits)
def test_a_choice_meets_the_limits_and_is_beaten_by_nobody_who_does(
    board: list[Measured], objective: Objective, wanted: Limits
) -> None:
    choice = choose(board, objective=objective, limits=wanted)
    fitting = [one for one in board if meets(one, wanted)]
    if choice.candidate is None:
        assert fitting == []
        return
    (chosen,) = [one for one in board if one.candidate == choice.candidate]
    assert chosen in fitting
    assert not any(beats(other, chosen) for other in fitting)


@pytest.mark.parametrize(("objective", "expected"), [("latency", 0), ("throughput", 1), ("memory", 2), ("energy", 3)])
def test_each_objective_takes_the_best_in_its_own_figure(objective: Objective, expected: int) -> None:
    board = [
        measured(0, p50_ms=5.0, joules=2.0),
        measured(1, answers_per_s=20.0, joules=2.0),
        measured(2, peak_bytes=50_000_000, joules=2.0),
        measured(3, joules=1.0),
    ]
    assert choose(board, objective=objective, limits=Limits()).candidate == named(expected)


def test_of_two_that_tie_the_one_that_does_better_in_the_rest_is_chosen() -> None:
    board = [
        measured(0, p50_ms=10.0),
        measured(1, p50_ms=10.0 * (1 + TIE / 2), peak_bytes=50_000_000, answers_per_s=10),
    ]
    assert choose(board, objective="latency", limits=Limits()).candidate == named(1)


def test_says_which_limit_nobody_meets() -> None:
    board = [measured(0, p95_ms=20.0), measured(1, p95_ms=30.0)]
    choice = choose(board, objective="latency", limits=Limits(p95_ms=15, memory_bytes=200_000_000))
    assert choice.candidate is None
    assert "p95 20.00 ms, at most 15 ms" in choice.why and "v0" in choice.why
    assert "MB" not in choice.why


def test_says_that_nobody_meets_both_limits_where_each_is_met_by_somebody() -> None:
    board = [measured(0, p95_ms=20.0, peak_bytes=200_000_000), measured(1, p95_ms=30.0, peak_bytes=90_000_000)]
    choice = choose(board, objective="latency", limits=Limits(p95_ms=25, memory_bytes=100_000_000))
    assert choice.candidate is None
    assert "both by nobody" in choice.why and "200 MB" in choice.why and "p95 30.00 ms" in choice.why


def scores(*rows: Sequence[float]) -> dict[Candidate, Sequence[float]]:
    return {named(number): row for number, row in enumerate(rows)}


@given(st.lists(st.integers(1, 100), min_size=1, max_size=12), st.data())
def test_no_disturbance_of_fewer_than_half_of_the_rounds_changes_what_is_typical(
    values: list[int], data: st.DataObject
) -> None:
    ordered = sorted(map(float, values))
    disturbed = data.draw(st.integers(0, len(ordered) // 2))
    kept = ordered[: len(ordered) - disturbed]
    assert typical([*kept, *(value * 7 for value in ordered[len(kept) :])]) == typical(ordered)


def test_typical_is_the_mean_of_the_better_half() -> None:
    assert typical([4.0, 1.0, 3.0, 2.0]) == 1.5
    assert typical([9.0, 1.0, 3.0]) == 2.0
    assert typical([-10.0, -30.0]) == -30.0


def test_one_lucky_round_does_not_lead() -> None:
    assert rank(scores([10.0] * 8, [5.0] + [12.0] * 7))[0] == named(0)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=12))
def test_halving_keeps_the_leader_and_at_least_half(rows: list[list[float]]) -> None:
    kept = halve(scores(*rows))
    sums = [sum(sorted(row)[:2]) for row in rows]
    assert sums[int(kept[0].variant[1:])] == pytest.approx(min(sums))
    assert len(kept) >= min(len(rows), max(2, len(rows) / 2))


def test_halving_keeps_whoever_is_near_to_the_leader() -> None:
    near = 10 * (1 + MARGIN / 2)
    assert len(halve(scores([10], [near], [near], [near]))) == 4
    assert halve(scores([10], [13], [20], [30])) == [named(0), named(1)]


def test_the_more_rounds_the_nearer_one_must_be_to_stay() -> None:
    further, nearer = 10 * (1 + 1.5 * MARGIN), 10 * (1 + 0.75 * MARGIN)

    def kept(*latencies: float, rounds: int) -> int:
        return len(halve(scores(*([latency] * rounds for latency in latencies))))

    assert kept(10, further, further, further, further, rounds=MARGIN_ROUNDS // 3) == 5
    assert kept(10, further, further, further, further, rounds=MARGIN_ROUNDS) == 3
    assert kept(10, nearer, nearer, nearer, nearer, rounds=MARGIN_ROUNDS) == 5
    assert kept(10, nearer, nearer, nearer, nearer, rounds=4 * MARGIN_ROUNDS) == 3


def test_one_that_was_disturbed_in_all_rounds_but_one_is_not_dropped_yet() -> None:
    assert named(3) in halve(scores([10.0] * 3, [10.0] * 3, [11.0] * 3, [10.0, 40.0, 40.0]))


def test_halving_keeps_near_rates_too_which_are_negative() -> None:
    assert len(halve(scores([-100], [-95], [-94], [-93]))) == 4


def test_a_leader_who_was_passed_in_none_of_eight_rounds_is_settled() -> None:
    assert is_settled(scores([10.0] * 8, [12.0] * 8))
    assert not is_settled(scores([10.0] * 7, [12.0] * 7))


def test_a_leader_who_is_passed_in_too_many_rounds_is_not_settled() -> None:
    # of a fair coin: P(at most 1 of 9) = 10/512, P(at most 1 of 12) = 13/4096
    assert not is_settled(scores([10.0] * 9, [9.0] + [12.0] * 8))
    assert is_settled(scores([10.0] * 12, [9.0] + [12.0] * 11))


def test_candidates_that_tie_are_settled() -> None:
    assert is_settled(scores([10.0, 10.1] * 4, [10.1, 10.0] * 4))


def test_equals_whose_figures_jump_are_not_settled() -> None:
    assert not is_settled(scores([10.0, 12.0] * 6, [12.0, 10.0] * 6))


def test_who_leads_for_a_while_only_is_not_settled() -> None:
    steady, surprising = [10.0] * 20, [10.1] * 17 + [5.0] * 3
    assert not is_settled(scores(steady, surprising))
    assert is_settled(scores(steady, [10.1] * 20))


def test_one_alone_is_settled() -> None:
    assert is_settled(scores([10.0]))


def test_one_who_was_dropped_is_held_against_the_rounds_that_it_had() -> None:
    # the board was half as fast while all three were measured; better halves: 20, 10 and 60 at that speed
    figures = level_out(scores([20.0, 20.0, 10.0, 10.0], [40.0, 40.0, 20.0, 20.0], [60.0, 60.0]), leader=named(0))
    assert figures == {named(0): 10.0, named(1): 20.0, named(2): 30.0}


def test_rates_are_levelled_too_which_are_negative() -> None:
    assert level_out(scores([-10.0, -20.0], [-5.0]), leader=named(0)) == {named(0): -20.0, named(1): -10.0}
