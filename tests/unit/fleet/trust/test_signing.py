"""With what time does the fleet sign, whatever its clock says?"""

import hypothesis.strategies as st
import pytest
from hypothesis import given
from shoal_fleet.trust.signing import choose_time

NOW = 1_800_000_000.0
DAY_S = 86_400.0
TIMES = st.floats(0, 4e9)


@given(now=TIMES, newest=TIMES, limit=TIMES)
def test_never_before_the_clock_and_never_beyond_what_boards_believe(now: float, newest: float, limit: float) -> None:
    chosen = choose_time(now=now, newest_at=newest, limit_at=limit)
    assert now <= chosen.at <= max(now + 3600.0, limit)
    assert chosen.at in (now, newest)


@given(now=TIMES, newest=TIMES, limit=TIMES)
def test_time_never_goes_back_within_what_boards_believe(now: float, newest: float, limit: float) -> None:
    if newest <= limit:
        assert choose_time(now=now, newest_at=newest, limit_at=limit).at >= newest


@pytest.mark.parametrize(
    ("ahead_s", "says"),
    [
        (-DAY_S, ""),
        (0.0, ""),
        (600.0, ""),
        (2 * DAY_S, "signed with the time 2027-01-17 08:00:00 UTC, and its clock says 2027-01-15 08:00:00 UTC"),
        (2 * DAY_S, "it signs with the later time until then"),
        (91 * DAY_S, "run `shoal-fleet keys rotate` here, then `shoal keys rotate --fleet`"),
    ],
    ids=["behind", "same", "nearly", "two days: when", "two days: what", "beyond the publisher's"],
)
def test_an_operator_hears_of_it_where_it_matters(ahead_s: float, says: str) -> None:
    trouble = choose_time(now=NOW, newest_at=NOW + ahead_s, limit_at=NOW + 90 * DAY_S).trouble
    assert says in trouble
    assert bool(says) == bool(trouble)
