"""Does an engine get its chances, and no more?"""

from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.crash_loop import LIMIT, PAUSES_S, WINDOW_S, CrashLoop


def test_three_deaths_of_nothing_in_particular_end_it() -> None:
    loop = CrashLoop()
    for number in range(LIMIT):
        assert not loop.is_over(now=float(number))
        loop.note("", now=float(number))
    assert loop.is_over(now=float(LIMIT))


def test_one_poisoned_item_never_ends_it() -> None:
    loop = CrashLoop()
    for number in range(50):
        loop.note("poison", now=float(number))
    assert loop.causes(now=50.0) == 1 and not loop.is_over(now=50.0)


def test_different_items_end_it() -> None:
    loop = CrashLoop()
    for item in ("a", "a", "b", "b", "c"):
        loop.note(item, now=1.0)
    assert loop.is_over(now=1.0)


def test_deaths_of_long_ago_are_forgotten() -> None:
    loop = CrashLoop()
    for number in range(LIMIT):
        loop.note("", now=number * WINDOW_S)
    assert not loop.is_over(now=LIMIT * WINDOW_S)


def test_pauses_grow_to_a_bound_and_the_first_start_has_none() -> None:
    loop = CrashLoop()
    pauses = []
    for _ in range(len(PAUSES_S) + 2):
        loop.note("same", now=0.0)
        pauses.append(loop.pause_s(now=0.0))
    assert pauses == sorted(pauses) and pauses[0] == 0.0 and pauses[-1] == 10.0


@given(st.lists(st.tuples(st.floats(0, 10_000), st.sampled_from(["", "a", "b"])), max_size=40))
def test_causes_are_never_more_than_deaths_in_the_window(deaths: list[tuple[float, str]]) -> None:
    loop = CrashLoop()
    deaths.sort()
    for at, culprit in deaths:
        loop.note(culprit, now=at)
    now = deaths[-1][0] if deaths else 0.0
    recent = [culprit for at, culprit in deaths if at >= now - WINDOW_S]
    assert loop.causes(now=now) <= len(recent)
    assert loop.causes(now=now) >= recent.count("")
