"""Is what isn't as it should be refused with a clear message, while the board goes on with what it has?

What says something about the release ends its update. What doesn't (the network, metadata that can't be trusted now)
puts the update off, and goes on once it is over.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from shoal_agent.updater.transitions import BOUNDS
from shoal_wire import paths
from shoal_wire.envelope import KeySigner
from shoal_wire.update import UpdateState

from tests.faults.updater.board import BoardFolder, Mirror, Site
from tests.faults.updater.publisher import CHUNK_BYTES, sealed_path, tamper
from tests.faults.updater.scripted_daemon import ScriptedDaemon

TRY_LATER = 75
HEADER_BYTES, TAG_BYTES = 32, 16
NOWHERE = "https://127.0.0.1:1"


def expect_refused(board: BoardFolder, *, reason: str) -> None:
    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.REFUSED, 2)
    assert reason in board.journal().reason
    assert board.versions() == (1, None)


def expect_put_off(board: BoardFolder, *, reason: str) -> None:
    daemon = ScriptedDaemon(board.state)
    ended = board.start(daemon)
    assert ended.code == TRY_LATER, ended.error
    assert [name for name, _ in daemon.events()] == ["update-delayed"]
    assert reason in board.journal().reason
    assert board.versions() == (1, None)


def chunk(data: bytes, index: int) -> bytes:
    start = HEADER_BYTES + index * (CHUNK_BYTES + TAG_BYTES)
    return data[start : start + CHUNK_BYTES + TAG_BYTES]


def cut_short(data: bytes, other: bytes) -> bytes:
    return data[:-1]


def reordered(data: bytes, other: bytes) -> bytes:
    first, second, rest = chunk(data, 0), chunk(data, 1), data[HEADER_BYTES + 2 * (CHUNK_BYTES + TAG_BYTES) :]
    return data[:HEADER_BYTES] + second + first + rest


def with_chunk_of_another(data: bytes, other: bytes) -> bytes:
    start = HEADER_BYTES + CHUNK_BYTES + TAG_BYTES
    return data[:start] + chunk(other, 1) + data[start + CHUNK_BYTES + TAG_BYTES :]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (cut_short, "file model: expected 4312 bytes, the fleet has 4311"),
        (reordered, "file model: chunk 0 of 5 came other than it was sealed"),
        (with_chunk_of_another, "file model: chunk 1 of 5 came other than it was sealed"),
    ],
)
def test_sealed_file_that_is_not_what_was_sealed(
    change: Callable[[bytes, bytes], bytes], reason: str, board: BoardFolder, mirror: Mirror, site: Site
) -> None:
    file = mirror.folder / sealed_path(site.second.manifest.file("model").ciphertext_sha256)
    other = mirror.folder / sealed_path(site.first.manifest.file("model").ciphertext_sha256)
    file.write_bytes(change(file.read_bytes(), other.read_bytes()))
    board.use_server(mirror.url)

    expect_refused(board, reason=reason)


def test_manifest_with_one_changed_bit(board: BoardFolder, mirror: Mirror, site: Site) -> None:
    (target,) = mirror.folder.glob(f"{paths.TUF_TARGETS.strip('/')}/*/2/*.manifest.json")
    tamper(target, at=100)
    board.use_server(mirror.url)

    expect_put_off(board, reason="yard-camera-detector/2/manifest.json: ")

    board.use_server(site.url)
    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_manifest_that_was_never_signed(board: BoardFolder, site: Site) -> None:
    assignment = msgspec.structs.replace(site.publisher.assign(site.second), version=3)
    board.desire(site.publisher.desire(assignment, generation=2))

    expect_refused(board, reason="yard-camera-detector/3/manifest.json: not signed by the release key")


def test_metadata_of_another_repository(
    board: BoardFolder, make_site: Callable[[str], Site], tmp_path: Path, site: Site
) -> None:
    board.use_server(make_site(tmp_path.name).url)

    expect_put_off(board, reason="TUF metadata can't be trusted (timestamp was signed by 0/1 keys)")

    board.use_server(site.url)
    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_expired_metadata_installs_nothing_until_it_is_renewed(own_board: BoardFolder, own_site: Site) -> None:
    own_site.publisher.publish(expires_in_days=-1)

    expect_put_off(own_board, reason="this board keeps what it runs and installs nothing new")

    own_site.publisher.publish()
    own_board.settle(ScriptedDaemon(own_board.state))
    assert own_board.ended() == (UpdateState.COMMITTED, 2)


def test_metadata_older_than_was_seen(own_board: BoardFolder, own_site: Site) -> None:
    metadata = own_site.publisher.folder / paths.TUF_METADATA.strip("/")
    old = (metadata / "timestamp.json").read_bytes()
    own_site.publisher.publish()
    own_board.settle(ScriptedDaemon(own_board.state))
    (metadata / "timestamp.json").write_bytes(old)
    own_board.desire(own_site.publisher.desire(own_site.publisher.assign(own_site.first), generation=3))

    ended = own_board.start(ScriptedDaemon(own_board.state))

    assert ended.code == TRY_LATER, ended.error
    assert "TUF metadata can't be trusted" in own_board.journal().reason
    assert own_board.versions() == (2, 1)


def test_release_below_a_floor_that_was_seen(own_board: BoardFolder, own_site: Site) -> None:
    publisher = own_site.publisher
    third = publisher.release(3, weights=b"third weights" * 300, floor=3)
    publisher.publish()
    own_board.desire(publisher.desire(publisher.assign(third), generation=3))
    own_board.settle(ScriptedDaemon(own_board.state))
    assert own_board.versions() == (3, 1)
    own_board.desire(publisher.desire(publisher.assign(own_site.second), generation=4))

    own_board.settle(ScriptedDaemon(own_board.state))

    assert own_board.ended() == (UpdateState.REFUSED, 4)
    assert "version 2 of model yard-camera-detector is below its floor, 3" in own_board.journal().reason
    assert own_board.versions() == (3, 1)


@pytest.mark.parametrize("wrong", ["key", "device", "bit"])
def test_desired_document_that_is_not_for_this_board(wrong: str, board: BoardFolder, site: Site) -> None:
    publisher, assignment = site.publisher, site.publisher.assign(site.second)
    documents = {
        "key": publisher.desire(assignment, generation=2, signer=KeySigner(ed25519.Ed25519PrivateKey.generate())),
        "device": publisher.desire(assignment, generation=2, device="d-neighbour"),
        "bit": publisher.desire(assignment, generation=2).replace(b'"payload":"eyJ', b'"payload":"eyK'),
    }
    reasons = {"key": "expected a signature by", "device": "found one for d-neighbour", "bit": "the bytes were changed"}
    board.desire(documents[wrong])
    before = board.journal()
    daemon = ScriptedDaemon(board.state)

    ended = board.start(daemon)

    assert ended.code == TRY_LATER, ended.error
    ((name, detail),) = daemon.events()
    assert name == "desired-refused" and reasons[wrong] in str(detail)
    assert board.journal() == before and board.slot().refused == ()


def test_assignment_key_that_was_replaced(own_board: BoardFolder, own_site: Site) -> None:
    publisher = own_site.publisher
    publisher.replace_assignment_key()
    publisher.publish()
    own_board.desire(publisher.desire(publisher.assign(own_site.second), generation=2))

    own_board.settle(ScriptedDaemon(own_board.state))

    assert own_board.ended() == (UpdateState.COMMITTED, 2)


def test_download_that_can_never_fit_is_not_tried_for_ever(board: BoardFolder, site: Site) -> None:
    """Nothing is fetched; the need is remembered, without a question to the fleet, and met when there is room."""
    daemon = ScriptedDaemon(board.state)
    full = 16 << 20
    reason = "needs 4312 bytes on disk and 16777216 in reserve, only 16777216 are free"

    assert board.start(daemon, free_bytes=full).code == TRY_LATER
    board.use_server(NOWHERE)
    for _ in range(2 * BOUNDS[UpdateState.PLANNING].attempts):
        assert board.start(daemon, free_bytes=full).code == TRY_LATER

    assert board.ended() == (UpdateState.PLANNING, 2)
    assert reason in board.journal().reason
    assert board.journal().fetched_bytes == 0 and board.slot().refused == ()
    assert [name for name, _ in daemon.events()] == ["update-delayed"]

    board.use_server(site.url)
    board.settle(daemon)
    assert board.ended() == (UpdateState.COMMITTED, 2)
    assert not (board.state / "waiting.json").exists()


def test_release_that_finds_no_room_until_the_deadline_is_refused(board: BoardFolder) -> None:
    assert board.start(ScriptedDaemon(board.state), free_bytes=0).code == TRY_LATER
    old = msgspec.structs.replace(board.journal(), entered_at=1.0)
    (board.state / "update.json").write_bytes(msgspec.json.encode(old))

    assert board.start(ScriptedDaemon(board.state), free_bytes=0).code == 0

    assert board.ended() == (UpdateState.REFUSED, 2)
    assert "bytes on disk" in board.journal().reason


def test_disk_that_fills_up_while_files_come_refuses_nothing(board: BoardFolder) -> None:
    for _ in range(2 * BOUNDS[UpdateState.FETCHING].attempts):
        assert board.start(ScriptedDaemon(board.state), free_bytes=1 << 30, fills_up=True).code == TRY_LATER
    assert board.ended() == (UpdateState.FETCHING, 2)
    assert "in reserve, only 0 are free" in board.journal().reason

    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_busy_fleet_is_left_alone_for_as_long_as_it_asked(board: BoardFolder, mirror: Mirror) -> None:
    (mirror.folder / "retry-after").write_text("600")
    board.use_server(mirror.url)
    for _ in range(2 * BOUNDS[UpdateState.FETCHING].attempts):
        assert board.start(ScriptedDaemon(board.state)).code == TRY_LATER
    assert "asked to come again in 600 s" in board.journal().reason
    assert len((mirror.folder / "refused").read_text()) == 1

    (mirror.folder / "retry-after").unlink()
    (board.state / "waiting.json").write_bytes(
        (board.state / "waiting.json").read_bytes().replace(b'"wait_s":600.0', b'"wait_s":0.0')
    )
    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_fleet_that_is_away_is_waited_for_however_often(board: BoardFolder, site: Site) -> None:
    board.use_server(NOWHERE)
    for _ in range(8):
        assert board.start(ScriptedDaemon(board.state)).code == TRY_LATER
    assert board.journal().state is UpdateState.PLANNING

    board.use_server(site.url)
    board.settle(ScriptedDaemon(board.state))
    assert board.ended() == (UpdateState.COMMITTED, 2)


def test_fleet_that_is_away_for_too_long_ends_the_update(board: BoardFolder) -> None:
    board.use_server(NOWHERE)
    assert board.start(ScriptedDaemon(board.state)).code == TRY_LATER
    old = msgspec.structs.replace(board.journal(), entered_at=1.0)
    (board.state / "update.json").write_bytes(msgspec.json.encode(old))

    board.settle(ScriptedDaemon(board.state))

    assert board.ended() == (UpdateState.REFUSED, 2)
    assert board.journal().reason.startswith("waited ")


def test_server_that_another_authority_vouches_for(
    board: BoardFolder, make_certificates: Callable[[Path], Path], tmp_path: Path
) -> None:
    board.use_certificates(make_certificates(tmp_path / "other"), only_authority=True)

    expect_put_off(board, reason="certificate verify failed")


def test_board_whose_certificate_is_of_another_fleet(
    board: BoardFolder, certificates: Path, make_certificates: Callable[[Path], Path], tmp_path: Path
) -> None:
    board.use_certificates(make_certificates(tmp_path / "other"))
    board.use_certificates(certificates, only_authority=True)

    # Since TLS 1.3 a refusal comes after the handshake: as an alert, or as the end of the connection that follows it.
    expect_put_off(board, reason="/v1/tuf/metadata/")


def test_line_that_breaks_in_every_answer_is_gone_on_with(board: BoardFolder, mirror: Mirror) -> None:
    (mirror.folder / "breaks-after").write_text("1500")
    board.use_server(mirror.url)

    board.settle(ScriptedDaemon(board.state))

    assert board.ended() == (UpdateState.COMMITTED, 2)
    assert board.journal().fetched_bytes == 4312
