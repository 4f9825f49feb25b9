"""Are many counts one family as Prometheus wants it?"""

import math
from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.metrics.tallies import OTHER, Buckets, Names, Tally

from tests.unit.fleet.metrics.samples import value

BOUNDS = (1.0, 2.0, 5.0)
VALUES = st.lists(st.floats(0, 10), max_size=40)


def test_a_tally_without_labels_begins_at_zero() -> None:
    tally = Tally("lost", "Lost.")
    assert value([tally.family()], "lost_total") == 0
    tally.add(3)
    tally.add(4)
    assert value([tally.family()], "lost_total") == 7


def test_a_tally_keeps_labels_apart() -> None:
    tally = Tally("answers", "Answers.", labels=("release", "version"))
    assert tally.family().samples == []
    tally.add(1, ("a", "1"))
    tally.add(2, ("a", "2"))
    assert value([tally.family()], "answers_total", release="a", version="2") == 2


@given(VALUES)
def test_buckets_hold_what_is_at_most_their_bound(values: list[float]) -> None:
    buckets = Buckets("size", "Size.", bounds=BOUNDS)
    for one in values:
        buckets.observe(one)
    family = [buckets.family()]
    if not values:
        assert family[0].samples == []
        return
    for bound, name in zip((*BOUNDS, math.inf), ("1.0", "2.0", "5.0", "+Inf"), strict=True):
        assert value(family, "size_bucket", le=name) == sum(one <= bound for one in values)
    assert value(family, "size_count") == len(values)
    assert math.isclose(value(family, "size_sum"), math.fsum(values), abs_tol=1e-9)


@given(st.lists(VALUES, max_size=4))
def test_merged_counts_are_those_of_all_values_together(parts: list[list[float]]) -> None:
    merged, observed = (Buckets("size", "Size.", bounds=BOUNDS) for _ in range(2))
    for values in parts:
        ordered = sorted(values)
        up_to = [bisect_right(ordered, bound) for bound in BOUNDS]
        merged.merge(up_to, count=len(values), total=math.fsum(values))
        for one in values:
            observed.observe(one)
    for bucket in observed.family().samples:
        if bucket.name == "size_bucket":
            assert value([merged.family()], bucket.name, **bucket.labels) == bucket.value


def test_names_beyond_the_limit_become_one() -> None:
    names = Names(most=2)
    assert [names.admit((one, "1")) for one in ("a", "b", "c", "a")] == [
        ("a", "1"),
        ("b", "1"),
        (OTHER, OTHER),
        ("a", "1"),
    ]
