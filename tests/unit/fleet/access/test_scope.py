"""Does a request see the rows of its projects and no others, whatever it asks for?"""

import contextvars
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from shoal_fleet.access.models import Project
from shoal_fleet.access.roles import EVERYWHERE
from shoal_fleet.access.scope import enter, limit
from shoal_fleet.database import Base, Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.devices.models import Device
from shoal_fleet.errors import NotFound
from shoal_fleet.releases import service as releases
from shoal_fleet.rollouts.policy import find_approvals_needed, set_approvals_needed
from shoal_fleet.telemetry import queries
from shoal_fleet.telemetry import service as telemetry
from shoal_fleet.telemetry.models import AnswerRow
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, aliased

from tests.unit.fleet.boards import NOW, Board, add_release, close_database, make_database, make_keys
from tests.unit.fleet.telemetry.rows import answer

YARD, ROOF = Board("yard"), Board("roof")


@pytest.fixture
def sessions(tmp_path: Path) -> Iterator[Sessions]:
    """Two projects with a device, a release and an answer each."""
    made = make_database(tmp_path / "fleet.db")
    with made() as session, writing(session):
        session.add(Project(name="up", created_at=NOW))
    keys = make_keys()
    for board, project, release in ((YARD, "default", "notes"), (ROOF, "up", "birds")):
        board.enrol(made, project=project)
        add_release(made, keys, name=release, version=1, project=project)
        with made() as session:
            telemetry.commit_batch(session, board.plain_batch(first=1, rows=[answer("one")]), now=NOW)
    yield made
    close_database(made)


def seen(sessions: Sessions, *projects: str, look: Callable[[Session], Any]) -> Any:
    """What a request with this reach finds."""

    def ask() -> Any:
        enter(frozenset(projects))
        with limit(sessions)() as session:
            return look(session)

    return contextvars.copy_context().run(ask)


LOOKS: dict[str, Callable[[Session], list[Any]]] = {
    "entities": lambda session: [row.id for row in devices.list_devices(session)],
    "columns": lambda session: list(session.scalars(select(Device.id))),
    "count": lambda session: [YARD.id] * session.scalars(select(func.count(Device.id))).one(),
    "alias": lambda session: [row.id for row in session.scalars(select(aliased(Device)))],
    "joined": lambda session: list(
        session.scalars(select(Device.id).join(AnswerRow, AnswerRow.device_id == Device.id))
    ),
    "of a device": lambda session: list(session.scalars(select(AnswerRow.device_id))),
    "subquery": lambda session: list(queries.find_last_answers(session)),
    "grouped": lambda session: list(
        session.scalars(select(AnswerRow.device_id).group_by(AnswerRow.device_id).having(func.count() > 0))
    ),
    "exists": lambda session: list(
        session.scalars(select(Device.id).where(select(AnswerRow.id).where(AnswerRow.device_id == Device.id).exists()))
    ),
    "get": lambda session: [row.id for id_ in (YARD.id, ROOF.id) if (row := session.get(Device, id_))],
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_rows_of_other_projects_are_not_there(sessions: Sessions, look: Callable[[Session], list[Any]]) -> None:
    assert seen(sessions, "default", look=look) == [YARD.id]
    assert len(seen(sessions, EVERYWHERE, look=look)) == 2
    assert seen(sessions, "nowhere", look=look) == []


@pytest.mark.parametrize(("project", "release"), [("default", "notes"), ("up", "birds")])
def test_releases_belong_to_a_project_by_their_name(sessions: Sessions, project: str, release: str) -> None:
    assert seen(sessions, project, look=lambda session: [one.name for one in releases.list_releases(session)]) == [
        release
    ]


def test_what_is_not_in_reach_is_found_as_little_as_what_was_never_there(sessions: Sessions) -> None:
    for name in (ROOF.id, ROOF.name, "never-there"):
        with pytest.raises(NotFound, match="expected the id or the name of a device, found none"):
            seen(sessions, "default", look=partial(devices.find_device, id_or_name=name))


def test_what_is_not_in_reach_is_not_changed(sessions: Sessions) -> None:
    def rename(session: Session) -> None:
        with writing(session):
            session.execute(update(Device).values(profile="changed"))

    seen(sessions, "up", look=rename)
    with sessions() as session:
        assert session.get_one(Device, YARD.id).profile == "generic"
        assert session.get_one(Device, ROOF.id).profile == "changed"


def read_all(kind: type[Any], session: Session) -> list[Any]:
    return list(session.scalars(select(kind)))


def test_every_table_that_is_about_a_device_is_limited(sessions: Sessions) -> None:
    """A table that somebody adds with a device's id in it is limited without a word."""
    kinds = [mapper.class_ for mapper in Base.registry.mappers if "device_id" in mapper.class_.__table__.columns]
    assert AnswerRow in kinds
    for kind in kinds:
        assert seen(sessions, "nowhere", look=partial(read_all, kind)) == []


def test_the_policy_of_the_whole_fleet_counts_in_each_project(sessions: Sessions) -> None:
    with sessions() as session:
        set_approvals_needed(session, 2, by="user:anna", now=NOW)
    assert seen(sessions, "default", look=partial(find_approvals_needed, project="default")) == 2


def test_outside_of_a_request_there_is_no_such_session(sessions: Sessions) -> None:
    with pytest.raises(LookupError):
        contextvars.Context().run(limit(sessions))
