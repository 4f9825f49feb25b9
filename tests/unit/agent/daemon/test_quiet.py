"""When is a board quiet enough for a measurement?"""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.daemon.quiet import Quiet


def ends_quiet(totals_ms: list[float], *, window_s: float = 30.0) -> bool:
    """Whether it is quiet after these totals, one every ten seconds."""
    quiet = Quiet(window_s=window_s)
    return [quiet.note(total_ms, now=100.0 + 10 * number) for number, total_ms in enumerate(totals_ms)][-1]


def test_it_takes_a_whole_window_to_tell() -> None:
    assert not ends_quiet([0, 0, 0])
    assert ends_quiet([0, 0, 0, 0])


def test_answers_that_take_half_of_the_time_are_too_many() -> None:
    assert ends_quiet([500, 5_500, 10_500, 15_400])
    assert not ends_quiet([500, 5_500, 10_500, 15_500])


def test_only_the_last_window_counts() -> None:
    assert ends_quiet([0, 10_000, 20_000, 30_000, 30_000, 30_000, 30_000])
    assert not ends_quiet([0, 0, 0, 0, 10_000, 20_000, 30_000])


def test_another_front_begins_the_window_anew() -> None:
    assert not ends_quiet([5_000, 5_000, 0, 0, 0])
    assert ends_quiet([5_000, 5_000, 0, 0, 0, 0])


@given(st.lists(st.floats(0, 10_000), min_size=4, max_size=12))
def test_it_is_quiet_where_less_than_half_of_the_last_window_was_spent(spent_ms: list[float]) -> None:
    totals = list(itertools.accumulate(spent_ms, initial=0.0))
    assert ends_quiet(totals) == (totals[-1] - totals[-4] < 15_000)
