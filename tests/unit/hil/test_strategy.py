"""Does a board get into every state from every other one, by steps that its disk needs and no others?"""

from pathlib import Path
from typing import Any

import attr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from labgrid import Target
from labgrid.driver import Driver
from labgrid.driver.commandmixin import CommandMixin
from labgrid.protocol import CommandProtocol, FileTransferProtocol, PowerProtocol
from labgrid.strategy import StrategyError

from hil.board import Board
from hil.strategy import LADDER, BoardStrategy, State


@attr.s(eq=False)
class FakePower(Driver, PowerProtocol):  # type: ignore[misc] # labgrid is untyped
    """A plug with a light: `events` says what was done to it."""

    events: list[str] = attr.ib(factory=list)

    def on(self) -> None:
        self.events.append("on")

    def off(self) -> None:
        self.events.append("off")

    def cycle(self) -> None:
        raise NotImplementedError

    def set_network(self, *, is_plugged: bool) -> None:
        self.events.append("plug" if is_plugged else "pull")


@attr.s(eq=False)
class FakeShell(CommandMixin, Driver, CommandProtocol, FileTransferProtocol):  # type: ignore[misc] # labgrid is untyped
    """A board that does everything at once: `commands` says what."""

    commands: list[str] = attr.ib(factory=list)

    def run(self, command: str, timeout: float | None = None) -> tuple[list[str], list[str], int]:
        self.commands.append(command)
        return [], [], 0

    def run_check(self, command: str, timeout: float | None = None) -> list[str]:
        return self.run(command)[0]

    def get_status(self) -> int:
        return 1

    def put(self, filename: str, remotepath: str) -> None:
        self.commands.append(f"put {remotepath}")

    def get(self, filename: str, destination: str) -> None:
        raise NotImplementedError


class FakeFleet:
    """Whose board is always connected, and whose rollouts succeed."""

    def __init__(self) -> None:
        self.rollouts: list[int] = []

    def make_token(self, name: str) -> str:
        return f"token of {name}"

    def let_go(self, name: str) -> None:
        pass

    def start_rollout(self, model: str, version: int, *, device: str) -> int:
        self.rollouts.append(version)
        return len(self.rollouts)

    def device(self, name: str) -> dict[str, Any]:
        return {"online": True, "reported": {}} | {"reported": {"counter": 1}}


class FakeSite:
    """A package that is a name, and items that are answered."""

    name, model, configuration = "board", "digits", "threads = 1\n"

    def __init__(self) -> None:
        self.fleet = FakeFleet()

    def package(self, board: Board) -> Path:
        return Path("shoal-agent.deb")

    def create_releases(self) -> None:
        pass

    def see_through(self, board: Board, rollout: int) -> str:
        return "succeeded"

    def is_serving(self, board: Board) -> bool:
        return True


class Lab:
    """A strategy with what it drives."""

    def __init__(self, *, has_power: bool = True) -> None:
        target = Target("main")
        self.power: FakePower | None = FakePower(target, None) if has_power else None  # type: ignore[call-arg]
        self.shell = FakeShell(target, None)  # type: ignore[call-arg]
        self.strategy = BoardStrategy(target, None)  # type: ignore[arg-type]
        self.site = FakeSite()
        self.strategy.site = self.site

    def times(self, word: str) -> int:
        """In how many commands a word is."""
        return sum(word in command for command in self.shell.commands)


@given(st.lists(st.sampled_from(State), max_size=8))
def test_every_state_is_reached_from_every_other_one(states: list[State]) -> None:
    lab = Lab()
    for state in states:
        lab.strategy.transition(state)
        assert lab.strategy.is_up is (state is not State.OFF)
        if state in LADDER:
            assert (lab.strategy.on_disk, lab.strategy.extra) == (state, None)
        elif state is not State.OFF:
            assert (lab.strategy.on_disk, lab.strategy.extra) == (State.SERVING, state)


def test_what_is_on_the_disk_is_not_done_again_after_a_power_cut() -> None:
    lab = Lab()
    lab.strategy.transition(State.SERVING)
    lab.strategy.cut_power()
    lab.strategy.transition(State.SERVING)
    assert lab.times("apt-get install") == lab.times("enrol") == 1
    assert lab.site.fleet.rollouts == [1]


def test_earlier_state_is_reached_by_removing_the_package_with_its_state() -> None:
    lab = Lab()
    lab.strategy.transition("serving")
    lab.strategy.transition("installed")
    assert lab.times("purge") == 1
    assert lab.times("apt-get install") == 2


def test_board_that_holds_more_than_is_needed_is_left_as_it_is() -> None:
    lab = Lab()
    lab.strategy.transition(State.SERVING)
    lab.strategy.reach(State.INSTALLED)
    assert lab.strategy.on_disk is State.SERVING
    assert lab.times("purge") == 0


def test_network_is_plugged_again_when_a_board_leaves_degraded() -> None:
    lab = Lab()
    lab.strategy.transition(State.DEGRADED)
    lab.strategy.transition(State.UPDATING)
    assert lab.power is not None
    assert lab.power.events[-2:] == ["pull", "plug"]
    assert lab.site.fleet.rollouts == [1, 2]


def test_board_without_switched_power_is_up_and_cannot_be_switched_off() -> None:
    lab = Lab(has_power=False)
    assert isinstance(lab.strategy.be_up(), Board)
    with pytest.raises(StrategyError, match="power can't be switched"):
        lab.strategy.transition(State.OFF)


def test_state_that_needs_a_fleet_says_so() -> None:
    lab = Lab()
    lab.strategy.site = None
    with pytest.raises(StrategyError, match="a fleet and a package"):
        lab.strategy.transition(State.INSTALLED)
