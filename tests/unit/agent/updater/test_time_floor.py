"""What time does a board go by that has no clock, or a wrong one?"""

from datetime import UTC, datetime

import hypothesis.strategies as st
import pytest
from hypothesis import given
from shoal_agent.updater.time_floor import Keys, Reading, TimeFloor, Vouched, follow_fleet, follow_keys, follow_metadata

TIMES = st.floats(0, 4e9)
NOW = datetime(2027, 3, 1, tzinfo=UTC).timestamp()
DAY_S = 86_400.0


ROOT_ENDS_AT = NOW + 300 * DAY_S
KEYS = Keys("root", "release", "online")


def vouched(
    *,
    root: float = NOW,
    release: float = NOW,
    online: float = NOW,
    keys: Keys = KEYS,
    root_ends: float = ROOT_ENDS_AT,
    limit: float = NOW + 90 * DAY_S,
) -> Vouched:
    return Vouched(root, release, online, keys, root_ends, limit)


def test_board_without_a_clock_goes_by_the_newest_signed_time() -> None:
    reading = Reading(clock_at=120.0, floor_at=NOW)
    assert (reading.at, reading.is_clock_behind) == (NOW, True)
    assert str(reading) == (
        "by the newest signed time, 2027-03-01 00:00:00 UTC; this board's clock is behind: 1970-01-01 00:02:00 UTC"
    )


def test_board_with_a_clock_goes_by_it_and_says_that_it_may_run_ahead() -> None:
    reading = Reading(clock_at=NOW + DAY_S, floor_at=NOW)
    assert (reading.at, reading.is_clock_behind) == (NOW + DAY_S, False)
    assert "if the clock runs ahead, set it" in str(reading)


@given(
    steps=st.lists(
        st.one_of(
            st.builds(vouched, root=TIMES, release=TIMES, online=TIMES, root_ends=TIMES, limit=TIMES).map(
                lambda seen: (follow_metadata, seen)
            ),
            TIMES.map(lambda at: (follow_fleet, at)),
        ),
        max_size=8,
    )
)
def test_floor_never_sinks_under_the_same_keys(steps: list[tuple[object, object]]) -> None:
    floor = TimeFloor()
    for follow, seen in steps:
        raised = follow(floor, seen)  # type: ignore[operator]
        assert raised.at >= floor.at
        assert raised.offline_at >= floor.offline_at and raised.release_at >= floor.release_at
        floor = raised


def test_online_keys_can_raise_it_only_as_far_as_the_offline_keys_signed() -> None:
    floor = follow_metadata(TimeFloor(), vouched(online=NOW + 9999 * DAY_S))
    assert floor.at == NOW + 90 * DAY_S
    assert follow_fleet(floor, NOW + 9999 * DAY_S).at == NOW + 90 * DAY_S


def test_what_stolen_online_keys_vouched_for_goes_with_them() -> None:
    floor = follow_metadata(TimeFloor(), vouched(online=NOW + 80 * DAY_S))
    assert follow_metadata(floor, vouched(online=NOW + DAY_S, keys=KEYS._replace(online="other"))).at == NOW + DAY_S
    assert follow_keys(floor, KEYS._replace(online="other")).at == NOW
    assert follow_keys(floor, KEYS) == floor


@pytest.mark.parametrize("role", ["root", "release"])
def test_a_publishers_time_ahead_counts_up_to_the_end_of_root_and_goes_with_the_keys_of_its_role(role: str) -> None:
    floor = follow_metadata(TimeFloor(), vouched(**{role: NOW + 9999 * DAY_S}))  # type: ignore[arg-type]
    assert floor.at == ROOT_ENDS_AT
    others = {"root", "release", "online"} - {role}
    assert follow_keys(floor, KEYS._replace(**dict.fromkeys(others, "other"))).at == ROOT_ENDS_AT
    named = KEYS._replace(**{role: "other"})
    assert follow_keys(floor, named).at == NOW
    assert follow_metadata(floor, vouched(keys=named)).at == NOW


def test_floor_that_an_earlier_agent_kept_stays_until_the_keys_change() -> None:
    """It names no keys of root and release."""
    kept = TimeFloor(offline_at=NOW, online_at=NOW + DAY_S, online_keys=KEYS.online, limit_at=NOW + 90 * DAY_S)
    floor = follow_keys(kept, KEYS)
    assert (floor.offline_at, floor.online_at) == (NOW, NOW + DAY_S)
    assert follow_keys(floor, KEYS._replace(root="other")).offline_at == 0.0


def test_time_of_a_document_counts_for_nothing_before_any_metadata_bounds_it() -> None:
    """A fleet whose clock runs ahead could lock a new board out for good."""
    assert follow_fleet(TimeFloor(), NOW).at == 0.0
