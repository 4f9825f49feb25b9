"""Do devices and releases get into another project whole, and never around an approval?"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from shoal_fleet.access.models import Project
from shoal_fleet.access.moves import move_device, move_releases
from shoal_fleet.access.projects import project_of_release
from shoal_fleet.audit import service as audit
from shoal_fleet.audit.service import Filter
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.errors import Conflict, NotFound
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.policy import set_approvals_needed
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire.messages import ProbationLimits

from tests.unit.fleet.boards import NOW, Board, add_release, close_database, make_database, make_keys


@pytest.fixture
def keys() -> OnlineKeys:
    return make_keys()


@pytest.fixture
def sessions(tmp_path: Path, keys: OnlineKeys) -> Iterator[Sessions]:
    """A device and a release in `default`, and an empty project `yard`."""
    made = make_database(tmp_path / "fleet.db")
    with made() as session, writing(session):
        session.add(Project(name="yard", created_at=NOW))
    Board("heron").enrol(made)
    add_release(made, keys, name="notes", version=1)
    yield made
    close_database(made)


def move_both(sessions: Sessions, project: str) -> None:
    with sessions() as session:
        move_device(session, "heron", project=project, actor="user:anna", now=NOW)
    with sessions() as session:
        move_releases(session, "notes", project=project, actor="user:anna", now=NOW)


def start(sessions: Sessions, keys: OnlineKeys) -> int:
    with sessions() as session:
        wanted = RolloutStart("notes", 1, ("all",), ProbationLimits())
        return service.start(session, wanted, by="user:anna", vault=keys.vault, now=NOW).id


def test_what_was_moved_is_in_the_other_project_and_goes_on_there(sessions: Sessions, keys: OnlineKeys) -> None:
    move_both(sessions, "yard")
    with sessions() as session:
        assert devices.find_device(session, "heron").project == "yard"
        assert project_of_release(session, "notes") == "yard"
        entries = audit.list_entries(session, before=None, wanted=Filter(), limit=9)
    assert [(one.action, one.subject, one.detail) for one in reversed(entries)] == [
        ("device.moved", "d-heron", {"from": "default", "to": "yard"}),
        ("release.moved", "notes", {"from": "default", "to": "yard"}),
    ]
    start(sessions, keys)


@pytest.mark.parametrize("waits", [False, True], ids=["running", "waiting"])
def test_refuses_what_a_rollout_is_under_way_with(sessions: Sessions, keys: OnlineKeys, waits: bool) -> None:
    if waits:
        with sessions() as session:
            set_approvals_needed(session, 1, by="user:anna", now=NOW)
    number = start(sessions, keys)
    for move, name in ((move_device, "heron"), (move_releases, "notes")):
        with sessions() as session, pytest.raises(Conflict, match=f"rollout {number} is under way"):
            move(session, name, project="yard", actor="user:anna", now=NOW)
    with sessions() as session:
        service.abort(session, number, by="user:anna", vault=keys.vault, now=NOW)
    move_both(sessions, "yard")


def test_refuses_a_project_that_needs_fewer_approvals(sessions: Sessions) -> None:
    with sessions() as session:
        set_approvals_needed(session, 1, by="user:anna", project="default", now=NOW)
    for move, name in ((move_device, "heron"), (move_releases, "notes")):
        with sessions() as session, pytest.raises(Conflict, match="need 1 approvals, in 'yard' 0; raise that first"):
            move(session, name, project="yard", actor="user:anna", now=NOW)
    with sessions() as session:
        set_approvals_needed(session, 1, by="user:anna", project="yard", now=NOW)
    move_both(sessions, "yard")


@pytest.mark.parametrize(
    ("name", "project", "error", "words"),
    [
        ("nobody", "yard", NotFound, "nobody"),
        ("heron notes", "nowhere", NotFound, "project 'nowhere'"),
        ("heron notes", "default", Conflict, "in project 'default' already"),
    ],
    ids=["no-such-thing", "no-such-project", "there-already"],
)
def test_refuses_what_is_not_there(
    sessions: Sessions, name: str, project: str, error: type[Exception], words: str
) -> None:
    device, _, release = name.partition(" ")
    with sessions() as session, pytest.raises(error, match=words):
        move_device(session, device, project=project, actor="user:anna", now=NOW)
    with sessions() as session, pytest.raises(error, match=words):
        move_releases(session, release or name, project=project, actor="user:anna", now=NOW)
