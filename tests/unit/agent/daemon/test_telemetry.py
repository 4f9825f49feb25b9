"""Do the counts of intervals add up to what the front counted, over its restarts?"""

import hashlib

from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.daemon.telemetry import Counts, subtract
from shoal_agent.front_messages import Health
from shoal_wire.histogram import Sketch
from shoal_wire.messages import ReleaseReference

DIGEST = hashlib.sha256(b"manifest").hexdigest()
REFERENCE = ReleaseReference("notes", 1, DIGEST)
latencies = st.lists(st.just(0.0) | st.floats(0.01, 1e6), max_size=30)


def make_health(values: list[float], *, errors: int = 0, deaths: int = 0, load: int = 0) -> Health:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return Health(
        slot="notes",
        manifest_sha256=DIGEST,
        load=load,
        answers=len(values),
        errors=errors,
        deaths=deaths,
        histogram=sketch.histogram(),
    )


@given(before=latencies, after=latencies)
def test_the_difference_of_two_histograms_is_what_came_between(before: list[float], after: list[float]) -> None:
    found = subtract(make_health(before + after).histogram, before=make_health(before).histogram)
    expected = make_health(after).histogram
    assert (found.zeros, found.keys, found.counts) == (expected.zeros, expected.keys, expected.counts)
    assert abs(found.total - expected.total) <= 1e-6 * max(1.0, expected.total + sum(before))


def test_what_is_no_continuation_counts_whole() -> None:
    earlier, later = make_health([1.0, 2.0]).histogram, make_health([500.0]).histogram
    assert subtract(later, before=earlier) == later


def test_counts_each_answer_once() -> None:
    counts = Counts(now=0.0)
    rows = counts.take([(REFERENCE, make_health([1.0, 2.0], errors=1))], now=5.0)
    assert [(row.answers, row.errors, row.from_at, row.to_at) for row in rows] == [(2, 1, 0.0, 5.0)]
    assert counts.take([(REFERENCE, make_health([1.0, 2.0], errors=1))], now=10.0) == []
    rows = counts.take([(REFERENCE, make_health([1.0, 2.0, 3.0], errors=1))], now=15.0)
    assert [(row.answers, row.errors, row.from_at, row.to_at) for row in rows] == [(1, 0, 10.0, 15.0)]


def test_deaths_without_an_answer_have_a_row() -> None:
    counts = Counts(now=0.0)
    assert [row.deaths for row in counts.take([(REFERENCE, make_health([], deaths=2))], now=5.0)] == [2]
    assert [row.deaths for row in counts.take([(REFERENCE, make_health([], deaths=3))], now=10.0)] == [1]


def test_a_front_that_started_anew_counts_from_nothing() -> None:
    counts = Counts(now=0.0)
    counts.take([(REFERENCE, make_health([1.0, 2.0]))], now=5.0)
    assert counts.take([(REFERENCE, make_health([7.0]))], now=10.0)[0].answers == 1
    counts.start_anew()
    assert counts.take([(REFERENCE, make_health([7.0, 8.0, 9.0]))], now=15.0)[0].answers == 3


def test_a_release_that_was_loaded_anew_counts_from_nothing() -> None:
    counts = Counts(now=0.0)
    counts.take([(REFERENCE, make_health([1.0, 2.0], load=1))], now=5.0)
    (row,) = counts.take([(REFERENCE, make_health([1.0, 2.0, 3.0], load=2))], now=10.0)
    assert (row.answers, row.latency_ms) == (3, make_health([1.0, 2.0, 3.0]).histogram)
