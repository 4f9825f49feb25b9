"""When is a variant called smaller or faster?"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.gains import FASTER, SMALLER, judge_gains
from shoal_converters.report.results import Speed, VariantResult

latencies = st.floats(0.01, 1000)


def timed(rounds_ms: list[float], *, engine: str = "litert", precision: str = "exact", p50_ms: float = 0.0) -> Speed:
    return Speed(
        engine=engine,
        precision=precision,
        threads=1,
        p50_ms=p50_ms or sorted(rounds_ms)[len(rounds_ms) // 2],
        p95_ms=max(rounds_ms, default=p50_ms),
        answers_per_s=1.0,
        memory_bytes=1,
        rounds_ms=tuple(rounds_ms),
    )


def result(*speeds: Speed, size_bytes: int = 100, name: str = "tflite-int8") -> VariantResult:
    return VariantResult(name=name, format="tflite", precision="int8", how="", size_bytes=size_bytes, speeds=speeds)


def fp32(*speeds: Speed, size_bytes: int = 100) -> VariantResult:
    return result(*speeds, size_bytes=size_bytes, name="tflite-fp32")


@pytest.mark.parametrize(("size_bytes", "names"), [(90, ("smaller",)), (91, ()), (100, ()), (120, ())])
def test_smaller_is_a_tenth_less_at_least(size_bytes: int, names: tuple[str, ...]) -> None:
    assert judge_gains(result(size_bytes=size_bytes), fp32()).names == names


@pytest.mark.parametrize(
    ("held", "rounds", "is_faster"), [(5, 5, True), (4, 4, False), (10, 12, True), (9, 12, False), (12, 12, True)]
)
def test_faster_must_hold_in_more_rounds_than_chance_would_give(held: int, rounds: int, is_faster: bool) -> None:
    mine = timed([5.0] * held + [9.5] * (rounds - held), p50_ms=5.0)
    gains = judge_gains(result(mine), fp32(timed([10.0] * rounds)))
    assert ("faster" in gains.names) == is_faster
    assert f"in {held} of {rounds} rounds" in gains.words


def test_one_lucky_setting_that_no_round_confirms_is_no_gain() -> None:
    mine = timed([10.0] * 12, p50_ms=1.0)
    assert judge_gains(result(mine), fp32(timed([10.0] * 12))).names == ()


def test_only_engines_that_ran_both_are_compared() -> None:
    mine = result(timed([5.0] * 12, engine="litert"))
    theirs = fp32(timed([50.0] * 12, engine="openvino"), timed([5.1] * 12, engine="litert"))
    assert judge_gains(mine, theirs).names == ()


def test_without_an_engine_that_ran_both_nothing_is_said_of_speed() -> None:
    gains = judge_gains(result(timed([5.0] * 12)), fp32(timed([50.0] * 12, engine="openvino")))
    assert gains.names == ()
    assert "can't be compared" in gains.words


def test_the_fp32_in_its_best_engine_is_what_must_be_beaten() -> None:
    mine = result(timed([5.0] * 12), timed([4.9] * 12, engine="openvino"))
    theirs = fp32(timed([50.0] * 12), timed([5.0] * 12, engine="openvino"))
    assert judge_gains(mine, theirs).names == ()


def test_shorter_types_of_an_engine_are_no_gain_of_a_variant() -> None:
    mine = result(timed([10.0] * 12), timed([1.0] * 12, precision="fast"))
    assert judge_gains(mine, fp32(timed([10.0] * 12))).names == ()


@given(st.lists(latencies, min_size=1, max_size=20), st.integers(1, 10**9))
def test_nothing_gains_over_itself(rounds_ms: list[float], size_bytes: int) -> None:
    itself = fp32(timed(rounds_ms), size_bytes=size_bytes)
    assert judge_gains(itself, itself).names == ()


@given(st.lists(st.tuples(latencies, latencies), min_size=1, max_size=20), st.integers(1, 10**6), st.integers(1, 10**6))
def test_what_is_claimed_holds_and_is_never_claimed_both_ways(
    rounds: list[tuple[float, float]], size_bytes: int, other_bytes: int
) -> None:
    one = result(timed([a for a, _ in rounds]), size_bytes=size_bytes)
    other = result(timed([b for _, b in rounds]), size_bytes=other_bytes)
    gains, back = judge_gains(one, other), judge_gains(other, one)
    assert not set(gains.names) & set(back.names)
    if "smaller" in gains.names:
        assert size_bytes <= SMALLER * other_bytes
    if "faster" in gains.names:
        assert one.speeds[0].p50_ms <= FASTER * other.speeds[0].p50_ms
        held = sum(a <= FASTER * b for a, b in rounds)
        assert sum(math.comb(len(rounds), k) for k in range(held, len(rounds) + 1)) / 2 ** len(rounds) <= 0.05


@given(st.lists(latencies, min_size=5, max_size=20), st.floats(0.001, 1000))
def test_a_machine_that_is_slower_throughout_changes_no_claim(rounds_ms: list[float], times: float) -> None:
    def judged(factor: float) -> tuple[str, ...]:
        mine = result(timed([ms * 0.5 * factor for ms in rounds_ms]))
        return judge_gains(mine, fp32(timed([ms * factor for ms in rounds_ms]))).names

    assert judged(1.0) == judged(times) == ("faster",)
