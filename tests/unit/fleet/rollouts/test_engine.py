"""Does a rollout go on wave by wave, stop at a gate and take back what it did, and do operators steer it?"""

import pytest
from shoal_fleet.database import Sessions
from shoal_fleet.errors import Conflict, Refused
from shoal_fleet.keys import OnlineKeys
from shoal_fleet.rollouts import service, steering
from shoal_fleet.rollouts.models import Rollout, RolloutDevice
from shoal_fleet.rollouts.plan import Gate, Plan, Wave
from shoal_fleet.rollouts.preview import preview
from shoal_fleet.rollouts.service import RolloutStart
from shoal_wire.messages import ProbationLimits

from tests.unit.fleet.boards import NOW, Board
from tests.unit.fleet.rollouts.yard import CANARY_FIRST, HOUR, Yard


@pytest.fixture
def yard(sessions: Sessions, keys: OnlineKeys) -> Yard:
    return Yard(sessions, keys)


def test_goes_on_wave_by_wave_each_after_its_soak(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=CANARY_FIRST))
    assert (yard.told(number), yard.waves(number)) == ({"canary"}, ["running", "waiting", "waiting"])
    yard.succeed("canary")
    second = yard.told(number) - {"canary"}
    assert (len(second), yard.waves(number)) == (2, ["passed", "running", "waiting"])
    yard.succeed(*second)
    assert (len(yard.told(number)), yard.waves(number)[1]) == (3, "soaking")
    yard.now += HOUR - 1
    yard.engine.look()
    assert len(yard.told(number)) == 3
    yard.now += 1
    yard.engine.look()
    assert (len(yard.told(number)), yard.waves(number)) == (6, ["passed", "passed", "running"])
    yard.succeed(*(yard.told(number) - second - {"canary"}))
    assert yard.rollout(number).state.value == "succeeded"
    assert set(yard.states(number).values()) == {"succeeded"}
    begun = ["created", "started", "wave_passed", "wave_started", "wave_passed", "wave_started", "wave_passed", "ended"]
    assert yard.actions(number) == begun


def test_a_gate_that_fails_takes_its_wave_back_and_ends_the_rollout(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=CANARY_FIRST))
    yard.succeed("canary")
    good, bad = sorted(yard.told(number) - {"canary"})
    yard.succeed(good)
    yard.report(yard.boards[bad], 1, reason="golden cases failed")
    yard.engine.look()
    rollout = yard.rollout(number)
    assert (rollout.state.value, yard.waves(number)) == ("failed", ["passed", "stopped", "waiting"])
    assert rollout.reason.startswith("wave 2 rolled back: 1 of 2 devices failed, at most 0 (golden cases failed)")
    states = yard.states(number)
    assert (states["canary"], states[good], states[bad]) == ("succeeded", "rolled back", "failed")
    assert set(states.values()) == {"succeeded", "rolled back", "failed", "aborted"}
    assert (yard.assigned(yard.boards[good]), yard.assigned(yard.boards["canary"])) == (1, 2)
    (back,) = (one for one in range(number + 1, number + 2))
    assert (yard.told(back), yard.rollout(back).reason) == ({good}, f"takes back rollout {number}")
    yard.succeed(good)
    assert yard.rollout(back).state.value == "succeeded"


def test_a_gate_may_pause_instead_and_is_asked_again_on_resume(yard: Yard) -> None:
    waves = (Wave(count=2, gate=Gate(max_failed=0)), Wave())
    number = yard.start(Plan(target="true", waves=waves, rolls_back=False))
    good, bad = sorted(yard.told(number))
    yard.succeed(good)
    yard.report(yard.boards[bad], 1, reason="too slow")
    yard.engine.look()
    assert yard.rollout(number).state.value == "paused"
    assert "1 of 2 devices failed" in yard.rollout(number).reason
    assert (len(yard.told(number)), yard.states(number)[good]) == (2, "succeeded")
    yard.steer(steering.resume, number)
    yard.engine.look()
    assert yard.rollout(number).state.value == "paused"


def test_a_device_that_never_comes_back_does_not_stay_proceeding_for_ever(yard: Yard) -> None:
    gate = Gate(silence_s=HOUR, max_silent=0.5)
    number = yard.start(Plan(target="true", waves=(Wave(count=2, gate=gate), Wave(gate=gate))))
    first = sorted(yard.told(number))
    yard.succeed(first[0])
    yard.now += HOUR
    yard.engine.look()
    assert (yard.waves(number), len(yard.told(number))) == (["passed", "running"], 6)
    yard.succeed(*(set(yard.told(number)) - set(first)))
    assert yard.rollout(number).state.value == "succeeded"
    assert yard.states(number)[first[1]] == "assigned"
    yard.succeed(first[1])  # it was only away
    assert yard.states(number)[first[1]] == "succeeded"


def test_more_silence_than_the_gate_allows_stops_the_wave(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=(Wave(count=2, gate=Gate(silence_s=HOUR)), Wave())))
    yard.now += HOUR
    yard.engine.look()
    assert yard.rollout(number).state.value == "failed"
    assert yard.rollout(number).reason.endswith("2 of 2 devices silent for 1 h, at most 10%")
    assert {yard.assigned(board) for board in yard.boards.values()} <= {0, 1}


def test_late_joiners_go_through_the_same_gates(yard: Yard) -> None:
    number = yard.start(Plan(target="!has(labels.left_out)", waves=(Wave(count=3, soak_s=HOUR), Wave())))
    yard.join(Board("early"))
    yard.engine.look()
    assert yard.states(number)["early"] == "assigned"
    yard.succeed(*yard.told(number))
    yard.join(Board("while-it-soaks"))
    yard.engine.look()
    assert yard.states(number)["while-it-soaks"] == "waiting"
    yard.now += HOUR
    yard.engine.look()
    yard.succeed(*yard.told(number))
    assert yard.rollout(number).state.value == "succeeded"
    yard.join(Board("too-late"))
    yard.engine.look()
    assert "too-late" not in yard.states(number)


def test_nobody_joins_where_that_is_not_wanted_or_who_runs_the_release_already(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=(Wave(count=1), Wave()), late_joiners=False))
    yard.join(Board("late"))
    yard.engine.look()
    assert "late" not in yard.states(number)
    other = yard.start(Plan(target='name == "b1"', waves=(Wave(),)), version=3)
    yard.succeed("b1")
    assert yard.rollout(other).state.value == "succeeded"


def test_a_paused_rollout_tells_nobody_and_goes_on_when_resumed(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=CANARY_FIRST))
    yard.steer(steering.pause, number)
    yard.succeed("canary")
    assert (yard.told(number), yard.states(number)["canary"]) == ({"canary"}, "succeeded")
    with pytest.raises(Conflict, match="is paused, expected it to be running"):
        yard.steer(steering.pause, number)
    yard.steer(steering.resume, number)
    yard.engine.look()
    assert len(yard.told(number)) == 3


def test_a_rollout_that_ended_is_taken_back_whole_or_by_wave(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=(Wave(count=2), Wave())))
    first = yard.told(number)
    yard.succeed(*first)
    yard.succeed(*(yard.told(number) - first))
    vault = yard.keys.vault
    (back,) = yard.steer(steering.roll_back, number, wave=1, vault=vault)
    assert yard.told(back.id) == first
    (rest,) = yard.steer(steering.roll_back, number, wave=None, vault=vault)
    assert yard.told(rest.id) == set(yard.boards) - first
    assert {yard.assigned(board) for board in yard.boards.values()} == {1}
    with pytest.raises(Conflict, match="none of its devices can go back"):
        yard.steer(steering.roll_back, number, wave=None, vault=vault)


def test_a_rollout_that_is_aborted_stops_in_the_wave_that_it_is_at(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=CANARY_FIRST))
    yard.succeed("canary")
    yard.steer(service.abort, number, vault=yard.keys.vault)
    assert (yard.rollout(number).state.value, yard.waves(number)) == ("aborted", ["passed", "stopped", "waiting"])
    assert set(yard.states(number).values()) == {"succeeded", "aborted"}
    yard.engine.look()
    assert len([state for state in yard.states(number).values() if state == "aborted"]) == 5


def test_taking_back_stops_a_rollout_that_goes_on(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=(Wave(count=2), Wave())))
    good, slow = sorted(yard.told(number))
    yard.succeed(good)
    (back,) = yard.steer(steering.roll_back, number, wave=None, vault=yard.keys.vault)
    assert (yard.rollout(number).state.value, yard.told(back.id)) == ("aborted", {good})
    assert (yard.states(number)[slow], yard.assigned(yard.boards[slow])) == ("aborted", 1)


def test_only_those_that_failed_are_tried_again_under_a_new_generation(yard: Yard) -> None:
    number = yard.start(Plan(target="true", waves=(Wave(gate=Gate(max_failed=1, min_success=0.5)),)))
    yard.report(yard.boards["b1"], 1, reason="power went")
    yard.succeed(*(set(yard.boards) - {"b1"}))
    assert yard.rollout(number).state.value == "succeeded"
    before = yard.order(yard.boards["b1"])
    again = yard.steer(steering.retry, number, person=None, vault=yard.keys.vault)
    assert isinstance(again, Rollout)
    assert (yard.told(again.id), yard.order(yard.boards["b1"]) > before) == ({"b1"}, True)
    yard.succeed("b1")
    assert yard.rollout(again.id).state.value == "succeeded"


def test_a_device_that_runs_something_else_after_its_success_is_seen(yard: Yard) -> None:
    """Success is the signed word of the device, and so is what follows."""
    number = yard.start(Plan(target="true", waves=(Wave(),)))
    yard.succeed(*yard.boards)
    yard.report(yard.boards["b1"], 1)
    with yard.sessions() as session:
        row = session.get(RolloutDevice, (number, yard.boards["b1"].id))
        assert row is not None
        assert (row.state.value, row.reason) == ("failed", "it succeeded, and runs notes 1 since")
    assert yard.actions(number)[-1] == "undone"


def test_a_newer_rollout_takes_devices_that_wait_in_a_wave(yard: Yard) -> None:
    """One that is stuck blocks no other."""
    old = yard.start(Plan(target="true", waves=(Wave(count=1), Wave())))
    stuck = yard.told(old)
    new = yard.start(Plan(), "all", version=3)
    assert yard.told(new) == set(yard.boards)
    assert set(yard.states(old).values()) == {"aborted"}
    yard.engine.look()
    assert yard.rollout(old).state.value == "aborted"
    yard.succeed(*yard.boards)
    assert yard.rollout(new).state.value == "succeeded"
    assert stuck <= yard.told(new)


def test_a_preview_is_what_is_done_then(yard: Yard) -> None:
    plan = Plan(target="true", waves=CANARY_FIRST)
    wanted = RolloutStart("notes", 2, (), ProbationLimits(), plan)
    with yard.sessions() as session:
        waves = preview(session, wanted, now=NOW)
    assert (waves[0], len(waves[1]), len(waves[2])) == (["canary"], 2, 3)
    number = yard.start(plan)
    yard.succeed("canary")
    assert yard.told(number) == {"canary", *waves[1]}


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(target="labels.sight == 1", waves=(Wave(),)), "== expected a text here, found a number"),
        (Plan(target="true", waves=(Wave(where="nobody"), Wave())), "nobody: no such name"),
        (Plan(target="true", waves=(Wave(), Wave())), "wave 1: expected count, percent or where"),
        (Plan(target="name == 'nobody'", waves=(Wave(),)), "expected at least one device, found none"),
    ],
)
def test_a_plan_that_means_nothing_is_refused(yard: Yard, plan: Plan, words: str) -> None:
    with pytest.raises(Refused, match=words):
        yard.start(plan)
