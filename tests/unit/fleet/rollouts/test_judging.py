"""Does a gate stop a wave as soon as it can't be held any more, pass it once it is held, and say why with numbers?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.rollouts.judging import Outcome, Tally, judge_wave
from shoal_fleet.rollouts.plan import Gate

WAIT, PASSED, STOPPED = Outcome.WAIT, Outcome.PASSED, Outcome.STOPPED


@pytest.mark.parametrize(
    ("tally", "gate", "outcome", "words"),
    [
        (Tally(10, 3, 0, 0), Gate(), WAIT, "3 of 10 devices done, 7 to come"),
        (Tally(10, 10, 0, 0), Gate(), PASSED, "10 of 10 devices succeeded"),
        (Tally(0, 0, 0, 0), Gate(), PASSED, "no device"),
        (
            Tally(10, 0, 1, 0, ["golden cases failed"]),
            Gate(),
            STOPPED,
            "1 of 10 devices failed, at most 0 (golden cases failed)",
        ),
        (
            Tally(10, 4, 3, 0, ["slow", "slow", "crash"]),
            Gate(max_failed=2, min_success=0.5),
            STOPPED,
            "3 of 10 devices failed, at most 2 (2 times: slow)",
        ),
        (
            Tally(10, 8, 2, 0, ["a", "b"]),
            Gate(max_failed=2, min_success=0.8),
            PASSED,
            "2 failed, at most 2; 8 of 10 devices succeeded",
        ),
        (Tally(10, 2, 2, 0), Gate(max_failed=9, min_success=0.9), STOPPED, "2 of 10 devices succeeded, at least 90%"),
        (
            Tally(10, 8, 0, 2),
            Gate(silence_s=5400.0),
            STOPPED,
            "2 of 10 devices silent for 1.5 h, at most 10%",
        ),
        (
            Tally(10, 9, 0, 1),
            Gate(),
            PASSED,
            "9 of 9 devices succeeded; 1 of 10 devices silent for 1 d, at most 10%",
        ),
        (Tally(1, 0, 0, 1), Gate(), STOPPED, "1 of 1 device silent for 1 d, at most 10%"),
    ],
)
def test_verdicts(tally: Tally, gate: Gate, outcome: Outcome, words: str) -> None:
    assert judge_wave(tally, gate) == (outcome, words)


GATES = st.builds(
    Gate, min_success=st.floats(0, 1), max_failed=st.integers(0, 5), max_silent=st.floats(0, 1), silence_s=st.just(60.0)
)


@given(GATES, st.integers(0, 8), st.integers(0, 8), st.integers(0, 8), st.integers(0, 8))
def test_a_stopped_wave_could_not_have_passed_whatever_came(
    gate: Gate, succeeded: int, failed: int, silent: int, pending: int
) -> None:
    """Of devices that are silent nobody knows; the others that may still come are taken to succeed."""
    now = judge_wave(Tally(succeeded + failed + silent + pending, succeeded, failed, silent), gate)
    best = judge_wave(Tally(succeeded + failed + silent + pending, succeeded + pending, failed, silent), gate)
    assert (now.outcome is STOPPED) == (best.outcome is STOPPED)
    assert (now.outcome is WAIT) == (best.outcome is PASSED and pending > 0)


@given(GATES, st.integers(1, 8), st.integers(0, 8))
def test_one_more_failure_never_makes_a_wave_pass(gate: Gate, succeeded: int, failed: int) -> None:
    total = succeeded + failed
    if judge_wave(Tally(total, succeeded, failed, 0), gate).outcome is STOPPED:
        assert judge_wave(Tally(total, succeeded - 1, failed + 1, 0), gate).outcome is STOPPED
