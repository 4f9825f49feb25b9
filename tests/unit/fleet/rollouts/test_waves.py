"""Is every device in one wave, are waves as large as asked, and do sites and profiles take turns?"""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.rollouts.plan import Wave, wrong_wave
from shoal_fleet.rollouts.waves import Candidate, divide, order

CANDIDATES = st.lists(
    st.builds(Candidate, st.uuids().map(str), st.sampled_from("abc"), st.sampled_from("xy")),
    max_size=60,
    unique_by=lambda one: one.id,
)
SIZES = st.one_of(
    st.integers(1, 30).map(lambda count: Wave(count=count)),
    st.floats(0.5, 100).map(lambda percent: Wave(percent=percent)),
)


@given(CANDIDATES, st.lists(SIZES, max_size=4))
def test_every_device_is_in_one_wave_and_waves_are_as_large_as_asked(
    candidates: list[Candidate], sizes: list[Wave]
) -> None:
    waves = (*sizes, Wave())
    found = divide(order(candidates, seed="s"), waves, meant={})
    assert set(found) == {one.id for one in candidates}
    counts, left = Counter(found.values()), len(candidates)
    for number, wave in enumerate(sizes, start=1):
        asked = wave.count or -(-len(candidates) * (wave.percent or 0) // 100)
        assert counts[number] == min(left, asked)
        left -= counts[number]
    assert counts[len(waves)] == left


@given(CANDIDATES, st.integers(1, 60))
def test_each_site_and_profile_has_its_share_of_the_first_ones(candidates: list[Candidate], count: int) -> None:
    first = set(order(candidates, seed="s")[:count])
    share = min(count, len(candidates)) / max(1, len(candidates))
    for stratum in {(one.site, one.profile) for one in candidates}:
        members = [one.id for one in candidates if (one.site, one.profile) == stratum]
        taken = sum(identity in first for identity in members)
        assert abs(taken - share * len(members)) <= 1.5


@given(CANDIDATES, st.randoms())
def test_the_order_is_that_of_a_seed_and_of_nothing_else(candidates: list[Candidate], chance: object) -> None:
    shuffled = sorted(candidates)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert order(candidates, seed="s") == order(shuffled, seed="s")
    assert set(order(candidates, seed="other")) == set(order(candidates, seed="s"))


def test_another_seed_lets_others_go_first() -> None:
    candidates = [Candidate(f"d-{number}", "", "") for number in range(100)]
    firsts = {order(candidates, seed=str(seed))[0] for seed in range(20)}
    assert len(firsts) > 10


def test_a_wave_of_an_expression_takes_what_it_means_and_the_last_one_what_is_left() -> None:
    ordered = [f"d-{number}" for number in range(10)]
    waves = (Wave(where="labels.canary == 'yes'"), Wave(percent=25.0), Wave(where="held"), Wave())
    found = divide(ordered, waves, meant={1: {"d-9", "d-4", "elsewhere"}, 3: {"d-4", "d-0"}})
    assert [identity for identity, number in found.items() if number == 1] == ["d-4", "d-9"]
    assert [identity for identity, number in found.items() if number == 2] == ["d-1", "d-2", "d-3"]
    assert [identity for identity, number in found.items() if number == 3] == ["d-0"]
    assert len(found) == 10


@pytest.mark.parametrize(
    ("waves", "words"),
    [
        (
            (Wave(count=1, percent=10.0), Wave()),
            "wave 1: expected one of count, percent and where, found count and percent",
        ),
        ((Wave(), Wave(count=1)), "wave 1: expected count, percent or where; only the last wave takes what is left"),
    ],
)
def test_waves_that_mean_nothing_are_named(waves: tuple[Wave, ...], words: str) -> None:
    assert wrong_wave(waves) == words
    assert wrong_wave((Wave(count=1), Wave(where="true"), Wave())) is None
