"""Is a nonce good once, for a while, and only where it was made?"""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.errors import NotAllowed
from shoal_fleet.renewal.challenges import LIFETIME_S, Challenges
from shoal_fleet.renewal.limits import MOST_KEYS, Limiter, Rate

NOW = 1_800_000_000.0


def test_a_nonce_is_good_once() -> None:
    challenges = Challenges()
    nonce = challenges.make(now=NOW)
    challenges.spend(nonce, now=NOW + LIFETIME_S - 1)
    with pytest.raises(NotAllowed, match="answered already"):
        challenges.spend(nonce, now=NOW + LIFETIME_S - 1)


@pytest.mark.parametrize("after_s", [LIFETIME_S, 86400.0, -1.0])
def test_a_nonce_of_another_time_is_refused(after_s: float) -> None:
    challenges = Challenges()
    nonce = challenges.make(now=NOW)
    with pytest.raises(NotAllowed, match="of the last"):
        challenges.spend(nonce, now=NOW + after_s)


@pytest.mark.parametrize(
    "nonce",
    ["", "nonsense", "é", "A" * 200, Challenges().make(now=NOW)],
    ids=["empty", "word", "not-ascii", "long", "of-another-server"],
)
def test_what_this_server_did_not_give_out_is_refused(nonce: str) -> None:
    with pytest.raises(NotAllowed, match="not one that this server gave out"):
        Challenges().spend(nonce, now=NOW)


@given(at=st.integers(0, 39), change=st.integers(1, 255))
def test_no_byte_of_a_nonce_can_be_changed(at: int, change: int) -> None:
    challenges = Challenges()
    raw = bytearray(base64.urlsafe_b64decode(challenges.make(now=NOW)))
    raw[at] ^= change
    with pytest.raises(NotAllowed):
        challenges.spend(base64.urlsafe_b64encode(bytes(raw)).decode(), now=NOW)


@given(asked_at=st.lists(st.floats(0, 100), max_size=60))
def test_nobody_is_answered_more_often_than_the_rate_allows(asked_at: list[float]) -> None:
    rate = Rate(burst=3, every_s=10.0)
    limiter = Limiter(rate)
    answered = [at for at in sorted(asked_at) if limiter.wait_s("one", now=at) == 0]
    for begin in range(len(answered)):
        for end in range(begin, len(answered)):
            lasted_s = answered[end] - answered[begin]
            assert end - begin + 1 <= rate.burst + lasted_s / rate.every_s + 1e-6


def test_who_waits_as_told_is_answered_and_others_are_not_kept_waiting() -> None:
    limiter = Limiter(Rate(burst=2, every_s=10.0))
    assert [limiter.wait_s("one", now=0.0) for _ in range(2)] == [0, 0]
    assert limiter.wait_s("one", now=4.0) == 6.0
    assert limiter.wait_s("two", now=4.0) == 0
    assert limiter.wait_s("one", now=10.0) == 0


def test_only_the_newest_askers_are_remembered() -> None:
    limiter = Limiter(Rate(burst=1, every_s=10.0))
    for number in range(MOST_KEYS + 1):
        assert limiter.wait_s(str(number), now=0.0) == 0
    assert limiter.wait_s("0", now=0.0) == 0, "forgotten"
    assert limiter.wait_s(str(MOST_KEYS), now=0.0) > 0
