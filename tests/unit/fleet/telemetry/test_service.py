"""Does a batch become rows exactly once, whatever is in it?"""

import json

import pytest
from msgspec import structs
from shoal_fleet.database import Sessions
from shoal_fleet.telemetry import service
from shoal_fleet.telemetry.models import (
    AnswerRow,
    EventRow,
    LatencyRow,
    LostRow,
    ProcessRow,
    RejectedRow,
    Watermark,
)
from shoal_fleet.tuning.models import TunedRow
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.errors import Malformed, Untrusted
from shoal_wire.messages import MAX_BATCH_BYTES, MAX_BATCH_ROWS, Lost, Row
from sqlalchemy import func, select

from tests.unit.fleet.boards import NOW, Board
from tests.unit.fleet.telemetry.rows import BOARD, FILES, LITERT, ONNX, answer, event, process, telemetry, tuned

ANSWER = json.loads(encode(answer("one")))


def commit(sessions: Sessions, board: Board, raw: bytes) -> int:
    batch = service.open_batch(raw, device_id=board.id, identity_key=board.identity.public_key())
    with sessions() as session:
        ack = service.commit_batch(session, batch, now=NOW)
    assert (ack.device, ack.stream) == (board.id, batch.stream)
    return ack.sequence


def items(sessions: Sessions) -> list[str]:
    with sessions() as session:
        return list(session.scalars(select(AnswerRow.item).order_by(AnswerRow.id)))


def mark(sessions: Sessions, board: Board, stream: str | None = None) -> Watermark:
    with sessions() as session:
        found = session.get(Watermark, (board.id, stream or board.stream))
        assert found is not None
        return found


def test_stores_every_kind_of_row(sessions: Sessions, board: Board) -> None:
    counts = telemetry(10.0, 20.0, errors=1, deaths=2)
    rows: list[Row] = [answer("one"), event("rollback"), counts, process("daemon"), tuned()]
    assert commit(sessions, board, board.batch(first=1, rows=rows)) == 5
    with sessions() as session:
        stored = session.scalars(select(AnswerRow)).one()
        happened = session.scalars(select(EventRow)).one()
        counted = session.scalars(select(LatencyRow)).one()
        measured = session.scalars(select(ProcessRow)).one()
        verdict = session.scalars(select(TunedRow)).one()
    assert (stored.answer_id, stored.item, stored.words) == (answer("one").answer_id, "one", "C4 E4 G4")
    assert (stored.release, stored.version, stored.manifest_sha256) == ("note-events", 1, "a" * 64)
    assert json.loads(stored.answer) == {"notes": [60, 64, 67]}
    assert (stored.at, stored.received_at, stored.sequence) == (100.0, NOW, 1)
    assert (happened.name, happened.detail, happened.generation, happened.sequence) == ("rollback", "it happened", 3, 2)
    assert (counted.answers, counted.errors, counted.deaths, counted.sequence) == (2, 1, 2, 3)
    assert (measured.name, measured.pss_bytes, measured.rss_bytes) == ("daemon", 30 << 20, 60 << 20)
    assert (verdict.fingerprint, verdict.board) == (BOARD.fingerprint, encode(BOARD).decode())
    assert (verdict.model, verdict.objective, verdict.release, verdict.version) == (
        "note-events",
        "latency",
        "note-events",
        1,
    )
    assert (verdict.choice, json.loads(verdict.files)) == (encode(LITERT).decode(), list(FILES))
    assert (verdict.is_settled, verdict.is_confirmed, verdict.is_emulated) == (True, False, False)
    assert json.loads(verdict.measured)[0]["p50_ms"] == 18.25


def test_a_batch_that_comes_again_is_acknowledged_again_and_stored_once(sessions: Sessions, board: Board) -> None:
    raw = board.batch(first=1, rows=[answer("one"), answer("two")])
    assert [commit(sessions, board, raw) for _ in range(3)] == [2, 2, 2]
    assert items(sessions) == ["one", "two"]


def test_takes_only_the_new_rows_of_a_batch_that_overlaps(sessions: Sessions, board: Board) -> None:
    commit(sessions, board, board.batch(first=1, rows=[event("a"), event("b")]))
    assert commit(sessions, board, board.batch(first=2, rows=[event("b"), event("c")])) == 3
    with sessions() as session:
        assert list(session.scalars(select(EventRow.name).order_by(EventRow.id))) == ["a", "b", "c"]


def test_a_gap_commits_nothing_and_says_again_how_far_it_has_come(sessions: Sessions, board: Board) -> None:
    assert commit(sessions, board, board.batch(first=3, rows=[answer("three")])) == 0
    commit(sessions, board, board.batch(first=1, rows=[answer("one")]))
    assert commit(sessions, board, board.batch(first=3, rows=[answer("three")])) == 1
    assert items(sessions) == ["one"]


def test_an_item_that_is_run_again_in_another_stream_is_counted_and_not_stored_twice(
    sessions: Sessions, board: Board
) -> None:
    commit(sessions, board, board.batch(first=1, rows=[answer("one")]))
    again = board.batch(first=1, rows=[answer("one"), answer("two"), answer("two")], stream="f" * 32)
    assert commit(sessions, board, again) == 3
    assert items(sessions) == ["one", "two"]
    assert mark(sessions, board, "f" * 32).duplicates == 2


def test_the_same_item_on_two_boards_is_two_answers(sessions: Sessions, board: Board) -> None:
    other = Board("roof")
    other.enrol(sessions)
    for one in (board, other):
        commit(sessions, one, one.batch(first=1, rows=[answer("one")]))
    assert items(sessions) == ["one", "one"]


def test_lost_rows_are_counted_once_and_the_stream_goes_on(sessions: Sessions, board: Board) -> None:
    commit(sessions, board, board.batch(first=1, rows=[answer("one")]))
    raw = board.batch(first=5, rows=[answer("five")], lost=Lost(2, 4, reason="outbox full"))
    assert [commit(sessions, board, raw) for _ in range(2)] == [5, 5]
    with sessions() as session:
        lost = session.scalars(select(LostRow)).one()
    assert (lost.first, lost.last, lost.reason) == (2, 4, "outbox full")
    assert mark(sessions, board).lost == 3
    assert items(sessions) == ["one", "five"]


def test_rows_that_were_committed_before_the_outbox_dropped_them_are_not_lost(sessions: Sessions, board: Board) -> None:
    commit(sessions, board, board.batch(first=1, rows=[answer("one"), answer("two")]))
    assert commit(sessions, board, board.batch(first=5, rows=[], lost=Lost(1, 4, reason="full"))) == 4
    with sessions() as session:
        lost = session.scalars(select(LostRow)).one()
    assert (lost.first, lost.last) == (3, 4)


MALFORMED_ROWS = {
    "no JSON object": b"[1]",
    "no kind": b"{}",
    "unknown kind": b'{"kind":"greeting"}',
    "answer: at is text": json.dumps({**ANSWER, "at": "now"}).encode(),
    "answer: latency below zero": json.dumps({**ANSWER, "latency_ms": -1}).encode(),
    "answer: id of another form": json.dumps({**ANSWER, "answer_id": "x"}).encode(),
    "answer: no reference": json.dumps({**ANSWER, "reference": None}).encode(),
    "answer: is a list": json.dumps({**ANSWER, "answer": []}).encode(),
    "answer: no UTF-8": encode(answer("one")).replace(b"C4", b"\xff\xfe"),
    "event: name is a number": b'{"kind":"event","at":1,"name":5}',
    "event: name with a slash": b'{"kind":"event","at":1,"name":"../x"}',
    "event: generation above the highest": b'{"kind":"event","at":1,"name":"x","generation":9223372036854775808}',
    "telemetry: count is a fraction": encode(telemetry(1.0)).replace(b'"answers":1', b'"answers":1.5'),
    "telemetry: counts without keys": encode(telemetry(1.0)).replace(b'"counts":[1]', b'"counts":[1,2]'),
    "telemetry: value beyond all numbers": encode(telemetry(1.0)).replace(b'"keys":[0]', b'"keys":[1048576]'),
    "telemetry: ends before it starts": encode(telemetry(1.0, from_at=9.0, to_at=5.0)),
    "tuned: a choice that wasn't measured": encode(structs.replace(tuned(), choice=ONNX)),
    "tuned: for an objective that isn't known": encode(tuned()).replace(b'"latency"', b'"beauty"'),
    "process: bytes are text": b'{"kind":"process","at":1,"name":"front","pss_bytes":"1","rss_bytes":1}',
}


@pytest.mark.parametrize("row", MALFORMED_ROWS.values(), ids=MALFORMED_ROWS.keys())
def test_a_malformed_row_is_kept_aside_and_the_stream_goes_on(sessions: Sessions, board: Board, row: bytes) -> None:
    assert commit(sessions, board, board.batch(first=1, rows=[event("before"), row, event("after")])) == 3
    with sessions() as session:
        rejected = session.scalars(select(RejectedRow)).one()
        assert list(session.scalars(select(EventRow.name).order_by(EventRow.id))) == ["before", "after"]
        assert session.scalar(select(func.count(AnswerRow.id))) == 0
        assert session.scalar(select(func.count(LatencyRow.id))) == 0
    assert (rejected.sequence, rejected.raw) == (2, row)
    assert rejected.reason
    assert mark(sessions, board).rejected == 1


def test_fields_that_are_not_known_are_ignored(sessions: Sessions, board: Board) -> None:
    commit(sessions, board, board.batch(first=1, rows=[json.dumps({**ANSWER, "mood": "good"}).encode()]))
    assert items(sessions) == ["one"]


def open_as(board: Board, raw: bytes) -> None:
    service.open_batch(raw, device_id=board.id, identity_key=board.identity.public_key())


def test_refuses_a_batch_signed_by_the_key_of_another_device(board: Board) -> None:
    payload = encode(board.plain_batch(first=1, rows=[answer("one")]))
    with pytest.raises(Untrusted, match="signature"):
        open_as(board, Board("roof").sign(payload, envelope.BATCH))


def test_refuses_a_batch_of_another_device_on_this_ones_topic(board: Board) -> None:
    payload = encode(Board("roof").plain_batch(first=1, rows=[answer("one")]))
    with pytest.raises(Untrusted, match="d-roof"):
        open_as(board, board.sign(payload, envelope.BATCH))


def test_refuses_a_signed_document_of_another_kind(board: Board) -> None:
    payload = encode(board.plain_batch(first=1, rows=[]))
    with pytest.raises(Untrusted, match="type"):
        open_as(board, board.sign(payload, envelope.REPORTED))


def test_refuses_a_batch_in_which_one_bit_was_changed(board: Board) -> None:
    raw = bytearray(board.batch(first=1, rows=[answer("one")]))
    position = raw.index(b'"payload":"') + 40
    raw[position] ^= 1
    with pytest.raises((Untrusted, Malformed)):
        open_as(board, bytes(raw))


PLAIN = {"device": "d-yard", "stream": "0" * 32, "first": 1, "rows": []}


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"not JSON",
        b"[]",
        rb'{"device":"d-yard","stream":"x","first":1,"rows":["\ud800"]}',
        json.dumps({**PLAIN, "first": "1"}).encode(),
        json.dumps({**PLAIN, "first": 0}).encode(),
        json.dumps({**PLAIN, "stream": "short"}).encode(),
        json.dumps({**PLAIN, "rows": {}}).encode(),
        json.dumps({**PLAIN, "rows": [{}] * (MAX_BATCH_ROWS + 1)}).encode(),
        json.dumps({**PLAIN, "lost": {"first": 1}}).encode(),
        json.dumps({**PLAIN, "rows": ["x" * MAX_BATCH_BYTES]}).encode(),
        b'{"device":"d-yard","stream":"' + b"0" * 32 + b'","first":1,"rows":[' + b"[" * 5000 + b"]" * 5000 + b"]}",
    ],
)
def test_refuses_what_is_no_batch(board: Board, payload: bytes) -> None:
    with pytest.raises(Malformed, match="batch of device d-yard"):
        open_as(board, board.sign(payload, envelope.BATCH))


@pytest.mark.parametrize("raw", [b"", b"{}", b"null", b"\xff", b'{"payloadType":1}'])
def test_refuses_what_is_no_envelope(board: Board, raw: bytes) -> None:
    with pytest.raises(Malformed):
        open_as(board, raw)
