"""The fleet is killed before any write of a step of a rollout: does the next start end where one undisturbed does?"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from shoal_fleet.audit.models import AuditRow
from shoal_fleet.database import Sessions, make_sessions, open_engine
from shoal_fleet.rollouts.engine import Engine
from shoal_fleet.rollouts.models import DesiredRow, Rollout, RolloutDevice, RolloutWave
from shoal_fleet.rollouts.plan import Plan
from sqlalchemy import select

from tests.faults.fleet.dying import dies_at
from tests.unit.fleet.boards import close_database, make_database, make_keys
from tests.unit.fleet.rollouts.yard import CANARY_FIRST, HOUR, Yard


class Story(NamedTuple):
    """What has happened before the fleet looks."""

    name: str
    tell: Callable[[Yard], None]


def pass_and_begin(yard: Yard) -> None:
    """The canary is done: its wave passes, and the next one begins."""
    yard.start(Plan(target="true", waves=CANARY_FIRST))
    yard.report(yard.boards["canary"], 2)


def fail_and_go_back(yard: Yard) -> None:
    """Of two boards in a wave one has failed: the other goes back, and the rollout ends."""
    number = yard.start(Plan(target="true", waves=CANARY_FIRST))
    yard.succeed("canary")
    good, bad = sorted(yard.told(number) - {"canary"})
    yard.report(yard.boards[good], 2)
    yard.report(yard.boards[bad], 1, reason="golden cases failed")


def end(yard: Yard) -> None:
    """All boards are done."""
    number = yard.start(Plan(target="true", waves=CANARY_FIRST))
    yard.succeed("canary")
    yard.succeed(*(yard.told(number) - {"canary"}))
    yard.now += HOUR
    yard.engine.look()
    for name in yard.told(number):
        yard.report(yard.boards[name], 2)


STORIES = (Story("pass", pass_and_begin), Story("go back", fail_and_go_back), Story("end", end))


@pytest.fixture(params=STORIES, ids=lambda story: story.name)
def yard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Yard]:
    sessions = make_database(tmp_path / "fleet.db")
    made = Yard(sessions, make_keys())
    request.param.tell(made)
    close_database(sessions)
    yield made


def look(yard: Yard, path: Path) -> None:
    """As a fleet does that was just started."""
    sessions = open_copy(path)
    Engine(sessions, vault=yard.keys.vault, clock=lambda: yard.now).look()
    close_database(sessions)


def open_copy(path: Path) -> Sessions:
    return make_sessions(open_engine(path))


def summary(path: Path) -> list[object]:
    """All that a rollout is, and what it has boards do."""
    sessions = open_copy(path)
    with sessions() as session:
        found: list[object] = [
            [(row.id, row.state, row.reason, row.finished_at) for row in session.scalars(select(Rollout))],
            [(row.number, row.state, row.verdict, row.finished_at) for row in session.scalars(select(RolloutWave))],
            [
                (row.rollout_id, row.device_id, row.state, row.reason, row.epoch, row.generation)
                for row in session.scalars(
                    select(RolloutDevice).order_by(RolloutDevice.rollout_id, RolloutDevice.device_id)
                )
            ],
            [(row.device_id, row.epoch, row.generation) for row in session.scalars(select(DesiredRow))],
            [(row.action, row.subject, row.detail) for row in session.scalars(select(AuditRow))],
        ]
    close_database(sessions)
    return found


def test_a_fleet_killed_at_any_write_goes_on_where_it_was(yard: Yard, tmp_path: Path) -> None:
    whole = tmp_path / "whole.db"
    shutil.copy(tmp_path / "fleet.db", whole)
    before = summary(whole)
    look(yard, whole)
    expected = summary(whole)
    assert expected != before
    deaths = 0
    for nth_write in itertools.count(1):
        died = tmp_path / f"{nth_write}.db"
        shutil.copy(tmp_path / "fleet.db", died)
        if not dies_at(nth_write, lambda died=died: look(yard, died)):  # type: ignore[misc]
            break
        deaths += 1
        look(yard, died)
        assert summary(died) == expected, f"killed before write {nth_write}"
    assert deaths > 5
