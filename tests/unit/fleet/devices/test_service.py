"""Does the fleet believe a device's own word only, and only the newest?"""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service
from shoal_fleet.devices.models import Device, DeviceCertificate
from shoal_fleet.devices.views import DeviceDetail
from shoal_fleet.errors import Conflict, NotAllowed, NotFound
from shoal_wire import envelope
from shoal_wire.encoding import encode
from shoal_wire.errors import Malformed, Untrusted

from tests.unit.fleet.boards import NOW, Board, close_database, make_database, reference, slot
from tests.unit.fleet.telemetry.rows import BOARD


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    database = make_database()
    yield database
    close_database(database)


@pytest.fixture
def board(sessions: Sessions) -> Board:
    board = Board("one")
    board.enrol(sessions)
    return board


def record(sessions: Sessions, raw: bytes, *, device_id: str, now: float = NOW) -> bool:
    with sessions() as session, writing(session):
        return service.record_reported(session, device_id=device_id, raw=raw, now=now) is not None


def test_keeps_what_a_device_reports(sessions: Sessions, board: Board) -> None:
    reported = board.reported(order=(1, 7), slots=[slot(reference("m", 2))])
    assert record(sessions, board.sign_reported(reported), device_id=board.id, now=NOW + 5)
    with sessions() as session:
        device = service.find_device(session, "one")
        assert service.last_reported(device) == reported
    assert (device.reported_epoch, device.reported_generation, device.last_seen_at) == (1, 7, NOW + 5)


def test_the_api_shows_the_current_slot_and_the_signed_document(sessions: Sessions, board: Board) -> None:
    raw = board.sign_reported(board.reported(slots=[slot(reference("m", 2))]))
    record(sessions, raw, device_id=board.id)
    with sessions() as session:
        view = DeviceDetail.of(service.find_device(session, board.id)).model_dump()
    assert view["reported"]["slots"][0]["current"]["manifest_sha256"] == reference("m", 2).manifest_sha256
    assert view["reported_envelope"] is not None
    assert (view["worker_deaths"], view["reported"]["kind"]) == (0, None)


def test_the_kind_of_board_is_kept_until_the_device_tells_no_more(sessions: Sessions, board: Board) -> None:
    for kind in (BOARD, None):
        raw = board.sign_reported(board.reported(kind=kind))
        record(sessions, raw, device_id=board.id)
        fingerprint = None if kind is None else kind.fingerprint
        with sessions() as session:
            device = service.find_device(session, board.id)
            view = DeviceDetail.of(device).model_dump()
        assert device.fingerprint == fingerprint
        shown = view["reported"]["kind"]
        assert (shown and (shown["processor"], shown["fingerprint"])) == (kind and ("Cortex-A76", fingerprint))


@settings(max_examples=30, deadline=None)
@given(counters=st.lists(st.integers(min_value=1, max_value=6), max_size=12))
def test_counter_only_grows(counters: list[int]) -> None:
    sessions, board = make_database(), Board("one")
    board.enrol(sessions)
    highest = 0
    for counter in counters:
        raw = board.sign_reported(board.reported(counter=counter))
        assert record(sessions, raw, device_id=board.id) == (counter > highest)
        highest = max(highest, counter)
    close_database(sessions)


def test_refuses_the_word_of_another_device(sessions: Sessions, board: Board) -> None:
    other = Board("two")
    other.enrol(sessions)
    raw = other.sign_reported(other.reported())
    with pytest.raises(Untrusted, match="expected a signature by"):
        record(sessions, raw, device_id=board.id)


def test_refuses_a_document_about_another_device(sessions: Sessions, board: Board) -> None:
    other = Board("two")
    raw = board.sign(encode(other.reported()), envelope.REPORTED)
    with pytest.raises(Untrusted, match="names the device d-two"):
        record(sessions, raw, device_id=board.id)


def test_refuses_a_batch_in_the_place_of_a_report(sessions: Sessions, board: Board) -> None:
    raw = board.sign(encode(board.reported()), envelope.BATCH)
    with pytest.raises(Untrusted, match="expected a document of type"):
        record(sessions, raw, device_id=board.id)


@pytest.mark.parametrize("raw", [b"", b"{}", b"[", b"\xff" * 10])
def test_refuses_nonsense(sessions: Sessions, board: Board, raw: bytes) -> None:
    with pytest.raises(Malformed, match="reported document of device d-one"):
        record(sessions, raw, device_id=board.id)


def test_refuses_wrong_type_inside_a_signed_report(sessions: Sessions, board: Board) -> None:
    raw = board.sign(b'{"device":"d-one","counter":"1"}', envelope.REPORTED)
    with pytest.raises(Malformed, match="counter"):
        record(sessions, raw, device_id=board.id)


def test_unknown_and_revoked_devices_have_no_word(sessions: Sessions, board: Board) -> None:
    raw = board.sign_reported(board.reported())
    with pytest.raises(NotFound):
        record(sessions, raw, device_id="d-none")
    with sessions() as session:
        service.revoke(session, board.id, actor="user:anna", now=NOW)
    with pytest.raises(NotAllowed, match="revoked"):
        record(sessions, raw, device_id=board.id)


def test_revoking_lists_certificates_until_they_end(sessions: Sessions, board: Board) -> None:
    with sessions() as session, writing(session):
        session.add(DeviceCertificate(serial="ff", device_id=board.id, not_after=NOW + 100))
        session.add(DeviceCertificate(serial="10", device_id=board.id, not_after=NOW - 100))
    with sessions() as session:
        service.revoke(session, "one", actor="user:anna", now=NOW)
        revoked_at = datetime.fromtimestamp(NOW, UTC)
        assert service.revoked_certificates(session, now=NOW + 1) == [(255, revoked_at)]
        assert service.revoked_certificates(session, now=NOW + 101) == []
        assert service.revoked_devices(session) == ["d-one"]


def test_revoked_device_frees_its_name_and_keeps_its_row(sessions: Sessions, board: Board) -> None:
    with sessions() as session:
        service.revoke(session, "one", actor="user:anna", now=NOW)
    with sessions() as session, pytest.raises(Conflict, match="revoked already"):
        service.revoke(session, board.id, actor="user:anna", now=NOW)
    with sessions() as session, pytest.raises(NotFound):
        service.find_device(session, "one")
    replacement = Board("new")
    replacement.name = "one"
    replacement.enrol(sessions)
    with sessions() as session:
        assert service.find_device(session, "one").id == "d-new"
        assert service.find_device(session, "d-one").revoked_at == NOW
        assert [device.id for device in service.list_devices(session)] == ["d-new", "d-one"]


def test_ids_are_opaque_and_fit_topics() -> None:
    ids = {service.new_device_id() for _ in range(100)}
    assert len(ids) == 100
    for device_id in ids:
        assert device_id.startswith("d-")
        assert len(device_id) == 18
        assert set(device_id[2:]) <= set("abcdefghijklmnopqrstuvwxyz234567")  # RFC 4648 base 32


def test_presence_is_kept(sessions: Sessions, board: Board) -> None:
    with sessions() as session, writing(session):
        service.record_presence(session, device_id=board.id, is_online=True)
    with sessions() as session:
        assert session.get_one(Device, board.id).is_online
