"""Are labels kept as people set them, refused where they can't be, and written down in the audit log?"""

from collections.abc import Iterator

import pytest
from shoal_fleet.audit.models import AuditRow
from shoal_fleet.database import Sessions
from shoal_fleet.errors import NotFound, Refused
from shoal_fleet.labels.service import MAX_LABELS, all_labels, change_labels, labels_of
from sqlalchemy import select

from tests.unit.fleet.boards import NOW, Board, close_database, make_database


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


def change(sessions: Sessions, changes: dict[str, str | None], *, device: str = "one") -> dict[str, str]:
    with sessions() as session:
        return change_labels(session, device, changes, actor="somebody", now=NOW)


def test_sets_changes_and_removes(sessions: Sessions, board: Board) -> None:
    assert change(sessions, {"site": "north", "floor": ""}) == {"floor": "", "site": "north"}
    assert change(sessions, {"site": "south", "floor": None, "roof": None}) == {"site": "south"}
    with sessions() as session:
        assert labels_of(session, board.id) == {"site": "south"}
        assert all_labels(session) == {board.id: {"site": "south"}}


def test_only_what_changed_is_in_the_audit_log(sessions: Sessions, board: Board) -> None:
    change(sessions, {"site": "north", "floor": "2"})
    change(sessions, {"site": "north"})
    change(sessions, {"site": "north", "floor": None})
    with sessions() as session:
        entries = session.scalars(select(AuditRow).where(AuditRow.action == "device.labelled")).all()
    assert [entry.detail for entry in entries] == [
        '{"labels":{"floor":"2","site":"north"}}',
        '{"labels":{"floor":null}}',
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Site": "x"}, "label 'Site': expected a small letter"),
        ({"a-b": "x"}, "label 'a-b'"),
        ({"": "x"}, "label ''"),
        ({"a" * 64: "x"}, "label 'aaa"),
        ({"site": "x" * 201}, "label site: expected at most 200 printable characters"),
        ({"site": "a\nb"}, "label site: expected at most 200 printable characters"),
        ({f"k{number}": "x" for number in range(MAX_LABELS + 1)}, "labels: expected at most 64, found 65"),
    ],
)
def test_what_is_no_label_is_refused(
    sessions: Sessions, board: Board, changes: dict[str, str | None], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        change(sessions, changes)


def test_a_device_has_no_more_labels_than_that_and_keeps_those_it_has(sessions: Sessions, board: Board) -> None:
    change(sessions, {f"k{number}": "x" for number in range(MAX_LABELS)})
    with pytest.raises(Refused, match="device 'one': expected at most 64 labels, found 65"):
        change(sessions, {"one_more": "x"})
    with sessions() as session:
        assert len(labels_of(session, board.id)) == MAX_LABELS


def test_there_must_be_such_a_device(sessions: Sessions) -> None:
    with pytest.raises(NotFound):
        change(sessions, {"site": "x"}, device="nobody")
