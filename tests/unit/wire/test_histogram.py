import json
import math
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_wire.encoding import decode_struct, encode
from shoal_wire.errors import Malformed
from shoal_wire.histogram import RELATIVE_ACCURACY, Histogram, Sketch, count_up_to

MILLISECONDS = st.floats(0, 1e7, allow_subnormal=False)
LISTS = st.lists(MILLISECONDS, max_size=30)
ANY_NUMBERS = st.lists(st.floats(0, 1e300), max_size=30)
FRACTIONS = (0.0, 0.25, 0.5, 0.95, 0.99, 1.0)


def count(values: Iterable[float]) -> Histogram:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch.histogram()


def add_up(*histograms: Histogram) -> Histogram:
    sketch = Sketch()
    for histogram in histograms:
        sketch.merge(histogram)
    return sketch.histogram()


def bins(histogram: Histogram) -> tuple[object, ...]:
    """All but the sum, whose last digits depend on the order of adding."""
    return histogram.zeros, histogram.keys, histogram.counts


@pytest.mark.parametrize("seed", range(4))
def test_quantiles_are_within_one_percent_of_the_exact_ones(seed: int) -> None:
    numbers = random.Random(seed)
    values = [numbers.lognormvariate(3, 1.5) for _ in range(2000)]

    merged = Sketch.of(add_up(*(count(values[board::7]) for board in range(7))))

    for fraction in FRACTIONS:
        exact = sorted(values)[math.floor(fraction * (len(values) - 1))]
        assert merged.quantile(fraction) == pytest.approx(exact, rel=RELATIVE_ACCURACY * 1.000001)


@given(values=st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=50))
@settings(max_examples=50, deadline=None)
def test_any_values_have_quantiles_within_one_percent(values: list[float]) -> None:
    sketch = Sketch.of(count(values))

    for fraction in FRACTIONS:
        exact = sorted(values)[math.floor(fraction * (len(values) - 1))]
        assert sketch.quantile(fraction) == pytest.approx(exact, rel=RELATIVE_ACCURACY * 1.000001)


@given(values=LISTS)
@settings(max_examples=50, deadline=None)
def test_counts_and_sum_are_exact(values: list[float]) -> None:
    histogram = count(values)

    assert Sketch.of(histogram).count == len(values) == histogram.zeros + sum(histogram.counts)
    assert histogram.total == pytest.approx(sum(values))


@given(first=LISTS | ANY_NUMBERS, second=LISTS | ANY_NUMBERS)
@settings(max_examples=50, deadline=None)
def test_merging_is_commutative(first: list[float], second: list[float]) -> None:
    assert bins(add_up(count(first), count(second))) == bins(add_up(count(second), count(first)))


@given(first=LISTS, second=LISTS, third=LISTS)
@settings(max_examples=50, deadline=None)
def test_merging_is_associative_and_the_same_as_counting_all(
    first: list[float], second: list[float], third: list[float]
) -> None:
    one, two, three = count(first), count(second), count(third)
    merged = add_up(one, two, three)

    assert bins(add_up(add_up(one, two), three)) == bins(add_up(one, add_up(two, three))) == bins(merged)
    assert bins(merged) == bins(count(first + second + third))
    assert merged.total == pytest.approx(sum(first + second + third))


@given(values=LISTS | ANY_NUMBERS)
@settings(max_examples=50, deadline=None)
def test_what_is_sent_is_read_back(values: list[float]) -> None:
    histogram = count(values)

    read = decode_struct(encode(histogram), Histogram, what="histogram")

    assert read == histogram
    assert Sketch.of(read).histogram() == histogram


def test_nothing_counted_has_no_quantile() -> None:
    assert Sketch().quantile(0.5) is None
    assert Sketch().histogram() == Histogram()
    assert Sketch().count == 0


def test_values_that_are_not_above_zero_count_as_zero() -> None:
    sketch = Sketch.of(count([0.0, -1.0, 5e-324]))

    assert (sketch.count, sketch.quantile(1.0)) == (3, 0.0)


@pytest.mark.parametrize(("keys", "counts"), [((1, 2), (1,)), ((), (1,)), ((1,), ())])
def test_keys_and_counts_that_do_not_pair_up_are_refused(keys: tuple[int, ...], counts: tuple[int, ...]) -> None:
    with pytest.raises(Malformed, match=f"^histogram: {len(keys)} keys with {len(counts)} counts"):
        Sketch.of(Histogram(keys=keys, counts=counts))


def test_refused_histogram_adds_nothing() -> None:
    sketch = Sketch.of(count([1.0, 2.0]))
    before = sketch.histogram()

    with pytest.raises(Malformed):
        sketch.merge(Histogram(zeros=5, keys=(1, 2), counts=(1,), total=9.0))
    assert sketch.histogram() == before


def test_bin_without_a_count_is_none() -> None:
    assert add_up(Histogram(keys=(1, 2), counts=(0, 3))) == Histogram(keys=(2,), counts=(3,))


def test_bin_that_is_named_twice_is_added_up() -> None:
    assert add_up(Histogram(keys=(7, 1, 7), counts=(1, 1, 2))) == Histogram(keys=(1, 7), counts=(1, 3))


def test_bins_all_over_the_range_take_bounded_memory() -> None:
    lowest, highest = -35_417, 35_487
    keys = tuple(range(lowest, highest, (highest - lowest) // 2047))[:2048]
    merged = add_up(*[Histogram(keys=keys, counts=(1,) * len(keys), total=1.0)] * 3)

    assert len(merged.keys) <= 2048
    assert sum(merged.counts) == 3 * len(keys)
    assert decode_struct(encode(merged), Histogram, what="histogram") == merged


@pytest.mark.parametrize("key", [-35_417, 35_487])
def test_every_key_that_is_read_stands_for_a_value(key: int) -> None:
    histogram = decode_struct(encode(Histogram(keys=(key,), counts=(1,))), Histogram, what="histogram")
    value = Sketch.of(histogram).quantile(0.5)

    assert value is not None
    assert 0 < value < float("inf")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keys", [-35_418]),
        ("keys", [35_488]),
        ("keys", [10**30]),
        ("keys", [0.5]),
        ("keys", [1] * 2049),
        ("counts", [1] * 2049),
        ("counts", [-1]),
        ("counts", [2**53 + 1]),
        ("zeros", -1),
        ("total", -1.0),
    ],
)
def test_numbers_out_of_range_are_refused(field: str, value: object) -> None:
    with pytest.raises(Malformed, match=rf"^histogram: .*\$\.{field}"):
        decode_struct(json.dumps({field: value}).encode(), Histogram, what="histogram")


@given(LISTS, st.lists(st.floats(0.01, 1e6), max_size=8).map(sorted))
def test_values_are_counted_up_to_each_bound_within_one_percent(values: list[float], bounds: list[float]) -> None:
    for bound, counted in zip(bounds, count_up_to(count(values), bounds), strict=True):
        surely = sum(value <= bound * 0.98 for value in values)
        perhaps = sum(value <= bound * 1.02 for value in values)
        assert surely <= counted <= perhaps
