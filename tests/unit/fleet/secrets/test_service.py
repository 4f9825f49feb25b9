"""A secret reaches its device sealed, in the desired document, and is in nothing else that the fleet keeps."""

import pytest
from shoal_fleet.database import Sessions
from shoal_fleet.devices import service as devices
from shoal_fleet.errors import Conflict, NotFound, Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import service as rollouts
from shoal_fleet.rollouts.models import DesiredRow
from shoal_fleet.rollouts.service import RolloutStart
from shoal_fleet.secrets import service
from shoal_wire.encoding import decode
from shoal_wire.messages import Desired, ProbationLimits
from shoal_wire.secret import SealedSecret, open_secret, seal_secret

from tests.unit.fleet.boards import NOW, Board, add_release, make_keys


def seal(board: Board, value: str, *, name: str = "camera-1", counter: int = 1) -> SealedSecret:
    return seal_secret(value, board.hpke.public_key(), device=board.id, name=name, counter=counter)


def put(sessions: Sessions, board: Board, secret: SealedSecret) -> None:
    with sessions() as session:
        service.put_secret(session, board.name, secret, now=NOW)


def read_desired(sessions: Sessions, board: Board) -> Desired:
    with sessions() as session:
        return decode(session.get_one(DesiredRow, board.id).document, Desired, what="desired")


def names(sessions: Sessions, board: Board) -> list[str]:
    with sessions() as session:
        return [row.name for row in service.list_secrets(session, devices.find_device(session, board.id))]


def test_device_gets_a_secret_that_it_alone_opens(sessions: Sessions, board: Board) -> None:
    put(sessions, board, seal(board, "hunter2"))
    (secret,) = read_desired(sessions, board).secrets
    assert open_secret(secret, board.hpke, device=board.id) == "hunter2"
    assert names(sessions, board) == ["camera-1"]


def test_value_is_in_no_byte_of_the_database(sessions: Sessions, board: Board) -> None:
    put(sessions, board, seal(board, "a long password indeed"))
    path = sessions.kw["bind"].url.database
    for suffix in ("", "-wal"):
        with open(path + suffix, "rb") as file:
            assert b"a long password" not in file.read()


def test_next_value_takes_the_place_of_the_last_and_generations_grow(sessions: Sessions, board: Board) -> None:
    put(sessions, board, seal(board, "old"))
    before = read_desired(sessions, board).order
    put(sessions, board, seal(board, "new", counter=2))
    desired = read_desired(sessions, board)
    assert [open_secret(one, board.hpke, device=board.id) for one in desired.secrets] == ["new"]
    assert desired.order > before


def test_value_that_was_overtaken_is_refused(sessions: Sessions, board: Board) -> None:
    put(sessions, board, seal(board, "first"))
    with pytest.raises(Conflict, match="sealed under the counter 1, expected 2"):
        put(sessions, board, seal(board, "also first"))


def test_removed_secret_is_gone_and_its_old_value_never_counts_again(sessions: Sessions, board: Board) -> None:
    put(sessions, board, seal(board, "hunter2"))
    with sessions() as session:
        service.remove_secret(session, board.id, "camera-1", now=NOW)
    assert read_desired(sessions, board).secrets == ()
    assert names(sessions, board) == []
    with pytest.raises(Conflict):
        put(sessions, board, seal(board, "hunter2", counter=1))
    with sessions() as session, pytest.raises(NotFound, match="none of that name"):
        service.remove_secret(session, board.id, "camera-1", now=NOW)


def test_rollouts_keep_secrets_and_secrets_keep_assignments(sessions: Sessions, board: Board) -> None:
    keys: OnlineKeys = make_keys()
    add_release(sessions, keys, name="notes", version=1)
    put(sessions, board, seal(board, "hunter2"))
    with sessions() as session:
        wanted = RolloutStart("notes", 1, [board.id], ProbationLimits())
        rollouts.start(session, wanted, by="user:anna", vault=keys.vault, now=NOW)
    put(sessions, board, seal(board, "more", name="camera-2"))
    desired = read_desired(sessions, board)
    assert [one.release for one in desired.assignments] == ["notes"]
    assert [one.name for one in desired.secrets] == ["camera-1", "camera-2"]


def test_device_has_a_bounded_number_of_secrets(sessions: Sessions, board: Board) -> None:
    for number in range(service.MOST_SECRETS):
        put(sessions, board, seal(board, "x", name=f"camera-{number}"))
    with pytest.raises(Refused, match="has 32 secrets, which is the most"):
        put(sessions, board, seal(board, "x", name="one-more"))
    assert len(names(sessions, board)) == service.MOST_SECRETS


def test_revoked_device_gets_no_secrets(sessions: Sessions) -> None:
    board = Board("gone")
    board.enrol(sessions, revoked_at=NOW)
    with sessions() as session, pytest.raises(Refused, match="is revoked"):
        service.put_secret(session, board.id, seal(board, "x"), now=NOW)
