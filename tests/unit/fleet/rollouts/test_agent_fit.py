"""Is a release of the agent assigned to devices that can take it alone, and moved by their reports as any other?"""

from typing import Any

import pytest
from msgspec.structs import replace
from shoal_fleet.database import Sessions, writing
from shoal_fleet.devices import service as devices
from shoal_fleet.errors import Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import service
from shoal_fleet.rollouts.agent_fit import find_obstacle
from shoal_fleet.rollouts.machine import DeviceState
from shoal_fleet.rollouts.models import Rollout, RolloutDevice
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.manifest import parse_manifest
from shoal_wire.messages import AgentReport, ProbationLimits, Reported
from shoal_wire.update import UpdateState

from tests.unit.fleet.boards import NOW, Board, add_release, manifest_of, progress, reference, slot

ABLE = AgentReport(machine="aarch64", python="3.11", state_format=1, can_update=True)
PART = parse_manifest(manifest_of(AGENT_RELEASE, 1)).agent


def reported(agent: AgentReport | None) -> Reported:
    return Board("yard").reported(agent=agent)


OBSTACLES: dict[str, tuple[Reported | None, str]] = {
    "silent": (None, "has not reported yet"),
    "older-agent": (reported(None), "its agent 0.1.0 can't update itself yet; install a newer package there"),
    "no-package": (reported(replace(ABLE, can_update=False, why_not="no package")), "no package"),
    "no-words": (reported(replace(ABLE, can_update=False)), "its agent says that it can't update itself"),
    "other-machine": (reported(replace(ABLE, machine="x86_64")), "is x86_64 with Python 3.11; the release is made for"),
    "other-python": (reported(replace(ABLE, python="3.13")), "is aarch64 with Python 3.13; the release is made for"),
    "newer-state": (reported(replace(ABLE, state_format=2)), "its state folder has format 2; the release reads 1 to 1"),
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_a_device_that_cannot_take_the_agent_is_told_apart_with_words(name: str) -> None:
    assert PART is not None
    found, words = OBSTACLES[name]
    assert words in (find_obstacle(PART, found) or "")


def test_a_device_that_can_take_it_has_no_obstacle() -> None:
    assert PART is not None
    assert find_obstacle(PART, reported(ABLE)) is None


class Site:
    """A fleet with two releases of the agent."""

    def __init__(self, sessions: Sessions, keys: OnlineKeys) -> None:
        self.sessions, self.keys = sessions, keys
        for version in (1, 2):
            add_release(sessions, keys, name=AGENT_RELEASE, version=version)

    def start(self, version: int, *names: str) -> Rollout:
        wanted = RolloutStart(AGENT_RELEASE, version, names, ProbationLimits())
        with self.sessions() as session:
            return service.start(session, wanted, by="user:anna", vault=self.keys.vault, now=NOW)

    def report(self, board: Board, **said: Any) -> None:
        raw = board.sign_reported(board.reported(**said))
        with self.sessions() as session, writing(session):
            devices.record_reported(session, device_id=board.id, raw=raw, now=NOW)
            service.follow(session, device=devices.find_device(session, board.id), vault=self.keys.vault, now=NOW)

    def attempt(self, rollout: Rollout, board: Board) -> RolloutDevice:
        with self.sessions() as session:
            row = session.get(RolloutDevice, (rollout.id, board.id))
            assert row is not None
            return row


@pytest.fixture
def site(sessions: Sessions, keys: OnlineKeys) -> Site:
    return Site(sessions, keys)


def test_no_device_is_told_where_one_cannot_take_it(site: Site, board: Board) -> None:
    other = Board("barn")
    other.enrol(site.sessions)
    site.report(board, agent=ABLE)
    site.report(other)
    with pytest.raises(Refused, match=r"release shoal-agent 1: device 'barn': its agent 0\.1\.0 can't update"):
        site.start(1, "all")
    rollout = site.start(1, "yard")
    assert site.attempt(rollout, board).state is DeviceState.ASSIGNED


def test_its_slot_moves_the_rollout_and_the_one_before_is_taken_back_to(site: Site, board: Board) -> None:
    first, second = reference(AGENT_RELEASE, 1), reference(AGENT_RELEASE, 2)
    site.report(board, agent=ABLE)
    rollout = site.start(1, "yard")
    row = site.attempt(rollout, board)
    order = (row.epoch, row.generation)
    trial = replace(ABLE, is_on_trial=True)
    site.report(
        board, order=order, slots=[slot(first)], update=progress(first, UpdateState.PROBATION, order=order), agent=trial
    )
    assert site.attempt(rollout, board).state is DeviceState.UPDATING
    done = progress(first, UpdateState.COMMITTED, order=order)
    site.report(board, order=order, slots=[slot(first)], update=done, agent=ABLE)
    assert site.attempt(rollout, board).state is DeviceState.SUCCEEDED

    newer = site.start(2, "yard")
    row = site.attempt(newer, board)
    order = (row.epoch, row.generation)
    back = progress(second, UpdateState.FELL_BACK, order=order, reason="started 3 times, and never kept")
    site.report(board, order=order, slots=[slot(first, refused=[order[1]])], update=back, agent=ABLE)
    attempt = site.attempt(newer, board)
    assert (attempt.state, attempt.reason) == (DeviceState.FAILED, "started 3 times, and never kept")
