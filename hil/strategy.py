"""How does a board get into the state that a test asks for, whichever board it is?

    off        without power
    booted     up and reachable; nothing of Shoal's on it
    installed  the agent's package is installed, and the board has no fleet
    enrolled   its agent runs and is connected to the fleet of the tests
    serving    it answers items with release 1 of the tests' model
    updating   as serving, and a rollout of release 2 has begun
    degraded   as serving, and its network is pulled

A test asks for a state and never says how to get there. From off a board comes back with all that its disk had; to an
earlier state it goes by removing the package with its state.
"""

import enum
import socket
import time
from pathlib import Path
from typing import Any, Protocol

import attr
from labgrid.factory import target_factory
from labgrid.strategy import Strategy, StrategyError

from hil.board import Board
from hil.host_fleet import wait_for

BOOT_S = 900.0
CONNECT_S = 600.0
STATE = "/var/lib/shoal-agent"
CONFIGURATION = "/etc/shoal/agent.toml"


class State(enum.Enum):
    """Of a board."""

    OFF = "off"
    BOOTED = "booted"
    INSTALLED = "installed"
    ENROLLED = "enrolled"
    SERVING = "serving"
    UPDATING = "updating"
    DEGRADED = "degraded"


LADDER = (State.BOOTED, State.INSTALLED, State.ENROLLED, State.SERVING)
"""What a disk holds, each with all before it."""


class Fleet(Protocol):
    """What an operator does for a board."""

    def make_token(self, name: str) -> str:
        """A token with which one board enrols under a name."""
        ...

    def let_go(self, name: str) -> None:
        """Shut a device out, where there is one of that name: another may have it then."""
        ...

    def start_rollout(self, model: str, version: int, *, device: str) -> int:
        """Begin to move a device to a release; returns the rollout's number."""
        ...

    def device(self, name: str) -> dict[str, Any]:
        """What the fleet knows of a device."""
        ...


class Site(Protocol):
    """What the tests bring along for a board."""

    @property
    def name(self) -> str:
        """What the board is called in the fleet."""
        ...

    @property
    def model(self) -> str:
        """The model whose releases 1 and 2 are served."""
        ...

    @property
    def configuration(self) -> str:
        """Of the agent: text of agent.toml."""
        ...

    @property
    def fleet(self) -> Fleet:
        """To which the board belongs."""
        ...

    def package(self, board: Board) -> Path:
        """The agent's package for this board."""
        ...

    def create_releases(self) -> None:
        """Have the fleet hold releases 1 and 2."""
        ...

    def see_through(self, board: Board, rollout: int) -> str:
        """Wait until a rollout has ended, with items that the board judges the release by; returns its state."""
        ...

    def is_serving(self, board: Board) -> bool:
        """Have an item answered, and say whether the answer came and is right."""
        ...


@target_factory.reg_driver
@attr.s(eq=False)
class BoardStrategy(Strategy):  # type: ignore[misc] # labgrid is untyped
    """The states of one board."""

    bindings = {  # noqa: RUF012 (as labgrid has it)
        "power": {"PowerProtocol", None},
        "shell": "CommandProtocol",
        "files": "FileTransferProtocol",
        "networkservice": {"NetworkService", None},
    }

    fleet_host: str = attr.ib(default="127.0.0.1", validator=attr.validators.instance_of(str))
    """Name or address under which the board reaches the machine of the tests."""
    fleet_bind: str = attr.ib(default="127.0.0.1", validator=attr.validators.instance_of(str))
    """IP address of that machine that the fleet listens on."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        self.site: Site | None = None
        self.is_up = self.power is None
        self.on_disk = State.BOOTED
        self.extra: State | None = None
        """UPDATING or DEGRADED, where the board is."""
        self.rollout = 0
        """Number of the one that began last."""

    @property
    def board(self) -> Board:
        """The board, which must be up."""
        return Board(self.shell, self.files)

    def be_up(self) -> Board:
        """Switch the board on where it is off, whatever its disk holds."""
        self._boot()
        return self.board

    def reach(self, rung: State) -> None:
        """Bring the board into a state of LADDER, or leave it in a later one."""
        self.transition(max(rung, self.on_disk, key=LADDER.index))

    def transition(self, wanted: State | str) -> None:
        """Bring the board into a state.

        Raises:
            StrategyError: the board can't get there, or the tests brought nothing for it.
            AssertionError: a step failed; says which.
        """
        state = State(wanted)
        if state is State.OFF:
            self._switch_off()
            return
        self._boot()
        if state is self.extra:
            return
        self._leave_extra()
        rung = state if state in LADDER else State.SERVING
        if LADDER.index(rung) < LADDER.index(self.on_disk):
            self._purge()
        while self.on_disk is not rung:
            following = LADDER[LADDER.index(self.on_disk) + 1]
            _CLIMB[following](self)
            self.on_disk = following
        if state is not rung:
            _ENTER[state](self)
            self.extra = state

    @property
    def is_emulated(self) -> bool:
        """Whether the environment says that a program computes the board."""
        return "emulated" in self.target.env.get_target_features()

    def cut_power(self, *, after_s: float = 0.0) -> None:
        """Pull the plug, whatever the board is at then. The moment is what a test is about, so it is waited for."""
        time.sleep(after_s)
        self._switch_off()

    def require_site(self) -> Site:
        """What the tests brought along."""
        if self.site is None:
            raise StrategyError("a fleet and a package are needed for this state: use the fixture `bench`")
        return self.site

    def _switch_off(self) -> None:
        if self.power is None:
            raise StrategyError("this board's power can't be switched")
        self.target.activate(self.power)
        self.target.deactivate(self.shell)
        self.power.off()
        self.is_up = False

    def _boot(self) -> None:
        if self.is_up:
            self.target.activate(self.shell)
            return
        self.target.activate(self.power)
        self.power.on()
        if self.networkservice is not None:
            address = (self.networkservice.address, self.networkservice.port)
            wait_for("the board's SSH server answers", lambda: _says_ssh(address), timeout_s=BOOT_S)
        self.target.activate(self.shell)
        self.is_up = True

    def _leave_extra(self) -> None:
        if self.extra is not None:
            _LEAVE[self.extra](self)
            self.extra = None

    def _install(self) -> None:
        package = self.require_site().package(self.board)
        self.board.put(package, f"/var/tmp/{package.name}")
        self.board.run(f"apt-get install --yes --quiet /var/tmp/{package.name} </dev/null", timeout_s=900)
        self.board.run(f"rm /var/tmp/{package.name}")

    def _enrol(self) -> None:
        site = self.require_site()
        self.board.write(CONFIGURATION, site.configuration)
        # The package's own units start the agent then.
        self.board.run(f"shoal-agent enrol - --name {site.name}", stdin=site.fleet.make_token(site.name) + "\n")
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        """Until the fleet has the board's presence and its first report."""
        site = self.require_site()

        def connected() -> bool | None:
            device = site.fleet.device(site.name)
            return True if device["online"] and device["reported"] else None

        wait_for("the board is connected", connected, timeout_s=CONNECT_S)

    def _serve(self) -> None:
        site = self.require_site()
        site.create_releases()
        number = site.fleet.start_rollout(site.model, 1, device=site.name)
        state = site.see_through(self.board, number)
        assert state == "succeeded", f"the rollout of release 1 {state}: {site.fleet.device(site.name)}"
        assert site.is_serving(self.board), "release 1 was rolled out, but an item isn't answered right"

    def _begin_update(self) -> None:
        site = self.require_site()
        self.rollout = site.fleet.start_rollout(site.model, 2, device=site.name)

    def _end_update(self) -> None:
        self.require_site().see_through(self.board, self.rollout)

    def _pull_network(self) -> None:
        self.power.set_network(is_plugged=False)

    def _plug_network(self) -> None:
        self.power.set_network(is_plugged=True)
        self.wait_until_connected()

    def _purge(self) -> None:
        self.board.run(f"apt-get purge --yes --quiet shoal-agent </dev/null; rm -rf {STATE}", timeout_s=900)
        if self.site is not None:
            self.site.fleet.let_go(self.site.name)
        self.on_disk = State.BOOTED


def _says_ssh(address: tuple[str, int]) -> bool | None:
    """Whether a server introduces itself as RFC 4253, section 4.2, wants it."""
    try:
        with socket.create_connection(address, timeout=5) as connection:
            return True if connection.recv(4) == b"SSH-" else None
    except OSError:
        return None


_CLIMB = {
    State.INSTALLED: BoardStrategy._install,
    State.ENROLLED: BoardStrategy._enrol,
    State.SERVING: BoardStrategy._serve,
}
_ENTER = {State.UPDATING: BoardStrategy._begin_update, State.DEGRADED: BoardStrategy._pull_network}
_LEAVE = {State.UPDATING: BoardStrategy._end_update, State.DEGRADED: BoardStrategy._plug_network}
