"""Are the devices found that may be given something new, and is a mistake explained?"""

from collections.abc import Iterator

import pytest
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.errors import Refused
from shoal_fleet.labels.service import put_labels
from shoal_fleet.targeting.service import find_matching, list_matching, matches

from tests.unit.fleet.boards import NOW, Board, close_database, make_database, reference, slot


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    database = make_database()
    yield database
    close_database(database)


@pytest.fixture
def boards(sessions: Sessions) -> list[Board]:
    """Three: one runs release 2 of m, one is held, one is revoked."""
    made = [Board(name) for name in ("one", "two", "three")]
    for board in made:
        board.enrol(sessions)
    with sessions() as session, writing(session):
        raw = made[0].sign_reported(made[0].reported(slots=[slot(reference("m", 2))]))
        devices.record_reported(session, device_id=made[0].id, raw=raw, now=NOW)
        for board in made:
            put_labels(session, board.id, {"site": "north"})
        devices.find_device(session, "two").held_at = NOW
    with sessions() as session:
        devices.revoke(session, "three", actor="test", now=NOW)
    return made


def test_finds_those_that_may_be_given_something_new(sessions: Sessions, boards: list[Board]) -> None:
    with sessions() as session:
        found = find_matching(session, "labels.site == 'north'", project="default", now=NOW)
        assert [device.name for device in found] == ["one"]
        assert not find_matching(session, "labels.site == 'north'", project="other", now=NOW)
        listed = list_matching(session, "labels.site == 'north'", now=NOW)
        assert [device.name for device in listed] == ["one", "two", "three"]


def test_what_a_device_runs_is_what_it_reports(sessions: Sessions, boards: list[Board]) -> None:
    with sessions() as session:
        one = devices.find_device(session, "one")
        assert matches(session, "runs.m == 2", one, now=NOW)
    with sessions() as session, writing(session):
        raw = boards[0].sign_reported(boards[0].reported(slots=[slot(reference("n", 5))], counter=9))
        devices.record_reported(session, device_id=boards[0].id, raw=raw, now=NOW)
    with sessions() as session:
        one = devices.find_device(session, "one")
        assert matches(session, "!has(runs.m) && runs.n == 5", one, now=NOW)


def test_a_mistake_is_drawn(sessions: Sessions) -> None:
    with sessions() as session, pytest.raises(Refused) as caught:
        find_matching(session, "labels.sight = 'north'", project="default", now=NOW)
    assert str(caught.value) == (
        "expression: column 14: '=' has no meaning here; did you mean ==?\n"
        "    labels.sight = 'north'\n"
        "                 ^"
    )
