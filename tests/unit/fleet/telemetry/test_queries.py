"""Do pace and latency come out of merged histograms as they would from the values themselves?"""

import statistics

import pytest
from shoal_fleet.database import Sessions
from shoal_fleet.telemetry import queries, service
from shoal_wire.messages import ReleaseReference, Row
from sqlalchemy import text

from tests.unit.fleet.boards import NOW, Board
from tests.unit.fleet.telemetry.rows import answer, event, process, telemetry


def store(sessions: Sessions, board: Board, *, first: int, rows: list[Row], now: float = NOW) -> None:
    with sessions() as session:
        service.commit_batch(session, board.plain_batch(first=first, rows=rows), now=now)


def pace_of(sessions: Sessions, board: Board, *, now: float = NOW, window_s: float = 30.0) -> queries.Pace | None:
    with sessions() as session:
        return queries.measure_pace(session, now=now, window_s=window_s).get(board.id)


def test_percentiles_of_several_intervals_are_those_of_all_their_values(sessions: Sessions, board: Board) -> None:
    early = [float(value) for value in range(1, 101)]
    late = [float(value) for value in range(500, 600)]
    rows: list[Row] = [
        telemetry(*early, from_at=1000.0, to_at=1005.0, errors=2),
        telemetry(*late, from_at=1005.0, to_at=1010.0),
    ]
    store(sessions, board, first=1, rows=rows)
    pace = pace_of(sessions, board)
    cuts = statistics.quantiles([*early, *late], n=20, method="inclusive")
    assert pace is not None
    assert (pace.answers, pace.errors, pace.answers_per_s) == (200, 2, 20.0)
    assert pace.p50_ms == pytest.approx(100, rel=0.02)
    assert pace.p95_ms == pytest.approx(cuts[-1], rel=0.02)


def test_counts_of_two_releases_add_up(sessions: Sessions, board: Board) -> None:
    newer = ReleaseReference("note-events", 2, "b" * 64)
    rows: list[Row] = [
        telemetry(10.0, from_at=0.0, to_at=5.0),
        telemetry(20.0, 20.0, from_at=0.0, to_at=5.0, release=newer),
    ]
    store(sessions, board, first=1, rows=rows)
    pace = pace_of(sessions, board)
    assert pace is not None
    assert (pace.answers, pace.answers_per_s) == (3, 0.6)


def test_counts_that_came_before_the_window_are_left_out(sessions: Sessions, board: Board) -> None:
    store(sessions, board, first=1, rows=[telemetry(10.0)], now=NOW - 31)
    assert pace_of(sessions, board) is None


def test_what_a_board_kept_while_it_was_cut_off_does_not_count_as_its_present_pace(
    sessions: Sessions, board: Board
) -> None:
    rows: list[Row] = [telemetry(*[900.0] * 50, from_at=0.0, to_at=5.0), telemetry(10.0, from_at=3600.0, to_at=3605.0)]
    store(sessions, board, first=1, rows=rows)
    pace = pace_of(sessions, board)
    assert pace is not None
    assert (pace.answers, pace.answers_per_s) == (1, 0.2)
    assert pace.p95_ms == pytest.approx(10.0, rel=0.01)


def test_deaths_of_workers_are_counted_for_a_day(sessions: Sessions, board: Board) -> None:
    quiet = Board("quiet")
    quiet.enrol(sessions)
    store(sessions, quiet, first=1, rows=[telemetry(10.0)])
    store(sessions, board, first=1, rows=[telemetry(deaths=7)], now=NOW - 86_401)
    store(sessions, board, first=2, rows=[telemetry(deaths=1)], now=NOW - 3600)
    store(sessions, board, first=3, rows=[telemetry(10.0, deaths=2), telemetry(10.0)])
    with sessions() as session:
        assert queries.count_deaths(session, now=NOW) == {board.id: 3}
    pace = pace_of(sessions, board)
    assert pace is not None
    assert pace.deaths == 2


def test_deaths_are_found_by_their_index(sessions: Sessions) -> None:
    """It holds only the few intervals that have any; a status page asks every two seconds."""
    with sessions() as session:
        plan = session.execute(
            text("EXPLAIN QUERY PLAN SELECT sum(deaths) FROM latency WHERE deaths > 0 AND received_at > 1")
        ).all()
    assert "ix_latency_deaths" in str(plan)


def test_an_interval_without_length_has_no_pace(sessions: Sessions, board: Board) -> None:
    store(sessions, board, first=1, rows=[telemetry(10.0, from_at=5.0, to_at=5.0)])
    pace = pace_of(sessions, board)
    assert pace is not None
    assert (pace.answers, pace.answers_per_s) == (1, None)


def test_answers_are_read_in_pages_and_counted_by_release(sessions: Sessions, board: Board) -> None:
    other = Board("roof")
    other.enrol(sessions)
    newer = ReleaseReference("note-events", 2, "b" * 64)
    store(sessions, board, first=1, rows=[answer("one"), answer("two"), answer("three", release=newer)])
    store(sessions, other, first=1, rows=[answer("four")])
    with sessions() as session:
        first, second = queries.list_answers(
            session, device_id=board.id, release=None, version=None, after_id=0, limit=2
        )
        rest = queries.list_answers(
            session, device_id=board.id, release=None, version=None, after_id=second.id, limit=2
        )
        assert [row.item for row in (first, second, *rest)] == ["one", "two", "three"]
        assert queries.count_answers(session, device_id=None, release=None, version=None) == 4
        assert queries.count_answers(session, device_id=board.id, release="note-events", version=1) == 2
        assert queries.count_answers(session, device_id=None, release="other", version=None) == 0


def test_last_answer_of_each_board(sessions: Sessions, board: Board) -> None:
    other = Board("roof")
    other.enrol(sessions)
    store(sessions, board, first=1, rows=[answer("one", words="C4"), answer("two", words="D4")])
    store(sessions, other, first=1, rows=[answer("three", words="E4")])
    with sessions() as session:
        last = queries.find_last_answers(session)
    assert {device: row.words for device, row in last.items()} == {board.id: "D4", other.id: "E4"}


def test_newest_memory_of_each_process_and_sums_over_streams(sessions: Sessions, board: Board) -> None:
    rows: list[Row] = [process("daemon", pss_bytes=1), process("front", pss_bytes=5), process("daemon", pss_bytes=2)]
    store(sessions, board, first=1, rows=rows)
    again = board.plain_batch(first=1, rows=[answer("x"), answer("x"), b"{}"], stream="e" * 32)
    with sessions() as session:
        service.commit_batch(session, again, now=NOW)
    with sessions() as session:
        processes = queries.find_processes(session, device_id=board.id)
        totals = queries.total_streams(session, device_id=board.id)
        nobody = queries.total_streams(session, device_id="d-nobody")
    assert [(row.name, row.pss_bytes) for row in processes] == [("daemon", 2), ("front", 5)]
    assert (totals.duplicates, totals.rejected, totals.lost) == (1, 1, 0)
    assert (nobody.duplicates, nobody.rejected, nobody.lost) == (0, 0, 0)


def test_events_of_one_board(sessions: Sessions, board: Board) -> None:
    store(sessions, board, first=1, rows=[event("a"), event("b"), event("c")])
    with sessions() as session:
        page = queries.list_events(session, device_id=board.id, after_id=1, limit=1)
        assert [row.name for row in page] == ["b"]
        assert queries.list_events(session, device_id="d-nobody", after_id=0, limit=9) == []
