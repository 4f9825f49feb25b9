"""Is what devices send counted once, and by names that nobody can multiply?"""

import pytest
from shoal_fleet.database import Sessions, writing
from shoal_fleet.metrics import traffic
from shoal_fleet.metrics.tallies import OTHER
from shoal_fleet.metrics.traffic import Traffic
from shoal_fleet.releases.models import Release
from shoal_fleet.telemetry import service
from shoal_wire.messages import Lost, ReleaseReference, Row

from tests.unit.fleet.boards import NOW, Board
from tests.unit.fleet.metrics.samples import samples, value
from tests.unit.fleet.telemetry.rows import event, process, telemetry


class Watched:
    """A board that sends rows, and the counts of them."""

    def __init__(self, sessions: Sessions, board: Board) -> None:
        self._sessions = sessions
        self._board = board
        self._next = 1
        self.traffic = Traffic()

    def send(self, *rows: Row | bytes, lost: int = 0) -> None:
        first = self._next + lost
        gap = Lost(first=self._next, last=first - 1, reason="full") if lost else None
        with self._sessions() as session:
            service.commit_batch(session, self._board.plain_batch(first=first, rows=rows, lost=gap), now=NOW)
        self._next = first + len(rows)

    def count(self) -> None:
        with self._sessions() as session:
            self.traffic.catch_up(session)

    def value(self, name: str, **labels: str) -> float:
        return value(self.traffic.families(), name, **labels)


@pytest.fixture
def watched(sessions: Sessions, board: Board) -> Watched:
    with sessions() as session, writing(session):
        session.add(Release(name="note-events", version=1, manifest_sha256="a" * 64, targets_version=1, created_at=NOW))
    made = Watched(sessions, board)
    made.send(telemetry(7.0, errors=9))  # from before anybody asked
    made.count()
    return made


def test_answers_errors_and_deaths_are_counted_once_by_release(watched: Watched) -> None:
    watched.send(telemetry(10.0, 20.0, errors=1, deaths=2), telemetry(30.0))
    for _ in range(2):
        watched.count()
    of = {"release": "note-events", "version": "1"}
    assert watched.value("shoal_answers_total", **of) == 3
    assert watched.value("shoal_errors_total", **of) == 1
    assert watched.value("shoal_worker_deaths_total", **of) == 2


def test_latencies_become_buckets_of_seconds(watched: Watched) -> None:
    watched.send(telemetry(3.0, 20.0, 20.0, 700.0), telemetry(20_000.0))
    watched.count()
    of = {"release": "note-events", "version": "1"}
    for le, expected in (("0.001", 0), ("0.005", 1), ("0.025", 3), ("0.5", 3), ("1.0", 4), ("10.0", 4), ("+Inf", 5)):
        assert watched.value("shoal_answer_latency_seconds_bucket", le=le, **of) == expected
    assert watched.value("shoal_answer_latency_seconds_sum", **of) == pytest.approx(20.743)


def test_a_release_that_only_a_device_knows_has_no_name_of_its_own(watched: Watched) -> None:
    for number in range(3):
        watched.send(telemetry(1.0, release=ReleaseReference(f"invented-{number}", 1, "b" * 64)))
    watched.count()
    assert watched.value("shoal_answers_total", release=OTHER, version=OTHER) == 3


def test_delay_is_from_the_end_of_counting_to_arrival(watched: Watched) -> None:
    watched.send(telemetry(1.0, from_at=NOW - 100, to_at=NOW - 90), telemetry(1.0, from_at=NOW, to_at=NOW + 500))
    watched.count()
    assert watched.value("shoal_telemetry_delay_seconds_bucket", le="60.0") == 1  # a clock ahead counts as no delay
    assert watched.value("shoal_telemetry_delay_seconds_bucket", le="300.0") == 2


def test_events_memory_losses_and_rejected_rows(watched: Watched) -> None:
    watched.send(event("worker-died"), event("worker-died"), process("daemon", pss_bytes=20 << 20), b"{}")
    watched.send(process("invented"), lost=5)
    watched.count()
    assert watched.value("shoal_events_total", event="worker-died") == 2
    assert watched.value("shoal_agent_process_pss_bytes_bucket", process="daemon", le=f"{float(24 << 20)}") == 1
    assert watched.value("shoal_agent_process_pss_bytes_count", process=OTHER) == 1
    assert watched.value("shoal_outbox_lost_rows_total") == 5
    assert watched.value("shoal_rejected_rows_total") == 1


def test_events_with_ever_new_names_share_one_series(watched: Watched) -> None:
    for number in range(traffic.MOST_EVENTS + 10):
        watched.send(event(f"invented-{number}"))
    watched.count()
    assert watched.value("shoal_events_total", event=OTHER) == 10
    named = [name for name, _ in samples(watched.traffic.families()) if name == "shoal_events_total"]
    assert len(named) == traffic.MOST_EVENTS + 1


def test_what_is_too_much_for_once_is_counted_the_next_time(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "MOST_ROWS", 3)
    watched.send(*(event("started") for _ in range(7)))
    counts = []
    for _ in range(4):
        watched.count()
        counts.append(watched.value("shoal_events_total", event="started"))
    assert counts == [3, 6, 7, 7]
