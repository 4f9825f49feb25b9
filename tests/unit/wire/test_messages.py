import json
import subprocess
import sys
from typing import Any

import pytest
from shoal_wire import update
from shoal_wire.encoding import decode, encode
from shoal_wire.errors import Malformed
from shoal_wire.messages import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    Answer,
    Batch,
    Desired,
    Event,
    Process,
    Reported,
    Telemetry,
    Tuned,
    parse_row,
)
from shoal_wire.update import UpdateState

from tests.vectors.examples import KINDS, example, load, to_json, with_unknown_fields

EVENT = {"kind": "event", "at": 1.0, "name": "worker-died"}


def batch(**changes: Any) -> bytes:
    return to_json(example("batch") | changes)


@pytest.mark.parametrize("kind", [Answer, Event, Telemetry, Process, Tuned])
def test_row_of_each_kind_is_read_and_written_as_agreed(kind: type) -> None:
    document = next(row for row in example("batch")["rows"] if row["kind"] == kind.__name__.lower())

    row = parse_row(to_json(document))

    assert type(row) is kind
    assert json.loads(encode(row)) == document
    assert parse_row(to_json(with_unknown_fields(document))) == row


def test_rows_that_can_be_left_out_are_the_agreed_ones() -> None:
    answer = example("batch")["rows"][0]
    tuned = example("batch")["rows"][4]
    telemetry = example("batch")["rows"][2] | {"latency_ms": {}}
    del answer["words"], telemetry["deaths"], tuned["is_confirmed"], tuned["measured"][0]["joules"]
    del tuned["choice"]["device"], tuned["measured"][0]["candidate"]["device"], tuned["measured"][0]["placement"]

    assert json.loads(encode(parse_row(to_json(answer)))) == answer | {"words": ""}
    assert json.loads(encode(parse_row(to_json(EVENT)))) == EVENT | {"detail": "", "generation": 0}
    assert json.loads(encode(parse_row(to_json(telemetry)))) == telemetry | {
        "latency_ms": {"zeros": 0, "keys": [], "counts": [], "total": 0.0},
        "deaths": 0,
    }
    tuned_again = json.loads(encode(parse_row(to_json(tuned))))
    first = tuned_again["measured"][0]
    assert (tuned_again.pop("is_confirmed"), first.pop("joules"), first.pop("placement")) == (False, None, [])
    assert (tuned_again["choice"].pop("device"), first["candidate"].pop("device")) == ("", "")
    assert tuned_again == tuned


@pytest.mark.parametrize("name", ["batch", "desired", "reported"])
def test_document_of_software_that_knew_nothing_of_tuning_is_read(name: str) -> None:
    older = load("before_tuning.json")[name]

    read = json.loads(encode(decode(to_json(older), KINDS[name], what=name)))

    assert [read.pop(later, None) for later in ("kind", "trust", "agent")] == [None] * 3
    assert [one.pop("known") for one in read.get("assignments", [])] in ([], [[]])
    assert read.pop("secrets", []) == []
    assert read == older
    for row in older.get("rows", []):
        assert json.loads(encode(parse_row(to_json(row)))) == row


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("objective", "beauty"),
        ("files", []),
        ("files", ["c" * 63]),
        ("measured", []),
        ("measured", example("batch")["rows"][4]["measured"] * 17),
        ("choice", {"variant": "../x", "engine": "litert", "threads": 1}),
        ("choice", {"variant": "v", "engine": "litert", "threads": 0}),
        ("choice", {"variant": "v", "engine": "litert", "threads": 1, "precision": "better"}),
    ],
)
def test_verdict_outside_its_bounds_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Malformed, match=rf"\$\.{field}"):
        parse_row(to_json(example("batch")["rows"][4] | {field: value}))


def test_rows_come_out_of_a_batch_as_they_went_in() -> None:
    rows = [parse_row(to_json(row)) for row in example("batch")["rows"]]

    read = decode(batch(rows=[json.loads(encode(row)) for row in rows]), Batch, what="batch")

    assert [parse_row(bytes(row)) for row in read.rows] == rows


def test_bad_row_does_not_spoil_its_batch() -> None:
    read = decode(batch(rows=[EVENT, {"kind": "future"}, 7, EVENT]), Batch, what="batch")

    assert parse_row(bytes(read.rows[0])) == parse_row(bytes(read.rows[3]))
    for index in (1, 2):
        with pytest.raises(Malformed, match=r"^row: "):
            parse_row(bytes(read.rows[index]))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (EVENT | {"kind": "Event"}, r"Invalid value 'Event' - at `\$\.kind`"),
        (EVENT | {"kind": 7}, r"\$\.kind"),
        ({"at": 1.0, "name": "worker-died"}, "missing required field `kind`"),
        (EVENT | {"name": "worker died"}, r"\$\.name"),
        (EVENT | {"detail": "x" * 4001}, r"\$\.detail"),
        (EVENT | {"at": -1}, r"\$\.at"),
        (EVENT | {"detail": "x" * MAX_BATCH_BYTES}, "bytes, expected at most 196608"),
        ([], "Expected `object`"),
    ],
)
def test_row_that_is_not_as_agreed_is_refused(row: Any, message: str) -> None:
    with pytest.raises(Malformed, match=f"^row: .*{message}"):
        parse_row(to_json(row))


def test_row_that_is_not_utf_8_is_refused_though_its_batch_is_read() -> None:
    read = decode(batch(rows=[EVENT]).replace(b"worker-died", b"worker-\xff"), Batch, what="batch")

    with pytest.raises(Malformed, match=r"^row: .*UTF-8"):
        parse_row(bytes(read.rows[0]))


def test_too_many_rows_are_refused() -> None:
    assert len(decode(batch(rows=[EVENT] * MAX_BATCH_ROWS), Batch, what="batch").rows) == MAX_BATCH_ROWS
    with pytest.raises(Malformed, match=r"length <= 256.*\$\.rows"):
        decode(batch(rows=[EVENT] * (MAX_BATCH_ROWS + 1)), Batch, what="batch")


@pytest.mark.parametrize(
    ("field", "value"), [("first", 0), ("first", 2**53 + 1), ("stream", "0" * 31), ("device", "+")]
)
def test_batch_outside_its_bounds_is_refused(field: str, value: Any) -> None:
    with pytest.raises(Malformed, match=rf"\$\.{field}"):
        decode(batch(**{field: value}), Batch, what="batch")


def test_desired_documents_are_ordered_by_epoch_then_generation() -> None:
    def order(epoch: int, generation: int) -> tuple[int, int]:
        document = example("desired") | {"epoch": epoch, "generation": generation}
        return decode(to_json(document), Desired, what="desired").order

    assert order(1, 99) < order(1, 100) < order(2, 0)


@pytest.mark.parametrize("state", UpdateState)
def test_every_state_of_an_update_is_reported_by_its_name(state: UpdateState) -> None:
    document = example("reported")
    document["update"]["state"] = state.value

    reported = decode(to_json(document), Reported, what="reported")

    assert reported.update is not None
    assert reported.update.state is state


def test_failed_update_has_ended() -> None:
    assert update.FAILED < update.TERMINAL < set(UpdateState)


def test_wire_brings_no_client_server_or_array_library() -> None:
    """A device's daemon imports wire, and has little memory."""
    code = "import sys, shoal_wire.messages, shoal_wire.manifest, shoal_wire.token; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert not {"numpy", "http", "urllib3", "ssl", "asyncio", "sqlite3"} & set(run.stdout.split())
