"""What does the doctor look at?

All that a check needs is in a `Board`: where the kernel's files lie, and what had to be asked for first. So a check is
a function of it, and is tested on a folder.
"""

import os
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from shoal_wire.device_profile import DeviceProfile

from shoal_agent.board_detection import MACHINE, Detection, Traits, detect, read_traits
from shoal_agent.configuration import Configuration, load_configuration
from shoal_agent.doctor.engine_facts import EngineFacts, read_engines
from shoal_agent.doctor.reaching import Reached, reach_fleet
from shoal_agent.doctor.reading import read_text
from shoal_agent.errors import AgentError, WrongConfiguration
from shoal_agent.files import DiskFiles
from shoal_agent.profiles import NO_PROFILES, Profiles, load_profiles
from shoal_agent.state import Device, load_device

UNIT = "shoal-agent.service"
_PROPERTIES = (
    "LoadState,ActiveState,SubState,UnitFileState,Result,NRestarts,Delegate,MemorySwapMax,LimitMEMLOCK,LimitCORE"
)


class Disk(NamedTuple):
    """The file system that the state folder lies on."""

    total_bytes: int
    free_bytes: int
    """For this user."""
    total_inodes: int
    """0 where the file system doesn't count them."""
    free_inodes: int
    is_read_only: bool
    kind: str
    """As mount(8) names it: ext4, tmpfs, …; empty where that isn't known."""
    device: str
    """Its numbers, as in /sys/dev/block: `179:2`."""


@dataclass(frozen=True, kw_only=True)
class Board:
    """What is looked at. `unit` holds properties of the agent's unit, and is empty where systemd doesn't run it."""

    state: Path
    now: float
    root: Path = Path("/")
    """Holds proc and sys."""
    machine: str = MACHINE
    unit: Mapping[str, str] = field(default_factory=dict)
    disk: Disk | None = None
    device: Device | None = None
    """None where the board isn't enrolled, or this user may not look."""
    profiles: Profiles = NO_PROFILES
    configuration_fault: str = ""
    engines: tuple[EngineFacts, ...] = ()
    reached: tuple[Reached, ...] = ()
    is_quick: bool = False
    """Neither engines nor the network were tried."""

    @property
    def proc(self) -> Path:
        """Where proc(5) is."""
        return self.root / "proc"

    @property
    def system(self) -> Path:
        """Where sysfs(5) is."""
        return self.root / "sys"

    @cached_property
    def traits(self) -> Traits:
        """What kernel and firmware show."""
        return read_traits(self.root, machine=self.machine)

    @cached_property
    def detection(self) -> Detection:
        """Which profile is this board's."""
        return detect(self.traits, self.profiles.known)

    @property
    def profile(self) -> DeviceProfile | None:
        """That profile; None where it doesn't lie on this board."""
        return self.profiles.find(self.detection.profile)


def read_board(state: Path, *, configuration: Path, is_required: bool, is_quick: bool) -> Board:
    """This board. Starts a worker for each engine and asks the fleet, unless `is_quick`.

    `configuration`: the agent's file; whether it must be there says `is_required`.
    """
    now = time.time()
    settings, fault = _read_configuration(configuration, is_required=is_required)
    return Board(
        state=state,
        now=now,
        unit=_read_unit(),
        disk=read_disk(state),
        device=_read_device(state),
        profiles=load_profiles(),
        configuration_fault=fault,
        engines=() if is_quick else tuple(read_engines(settings)),
        reached=() if is_quick else reach_fleet(DiskFiles(), state, now=now),
        is_quick=is_quick,
    )


def read_disk(folder: Path, *, proc: Path = Path("/proc")) -> Disk | None:
    """The file system of a folder, or of the nearest one above that is there; None where nobody may look."""
    try:
        place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        numbers, device = os.statvfs(place), place.stat().st_dev
    except OSError:
        return None
    name = f"{os.major(device)}:{os.minor(device)}"
    return Disk(
        total_bytes=numbers.f_blocks * numbers.f_frsize,
        free_bytes=numbers.f_bavail * numbers.f_frsize,
        total_inodes=numbers.f_files,
        free_inodes=numbers.f_favail,
        is_read_only=bool(numbers.f_flag & os.ST_RDONLY),
        kind=kind_of(name, mounts=read_text(proc / "self/mountinfo")),
        device=name,
    )


def kind_of(device: str, *, mounts: str) -> str:
    """The kind of the file system on a device (proc(5), mountinfo: field 3, and the first after the hyphen)."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2:3] == [device] and after:
            return after.split()[0]
    return ""


def _read_configuration(path: Path, *, is_required: bool) -> tuple[Configuration, str]:
    try:
        return load_configuration(path, environment=os.environ, is_required=is_required), ""
    except WrongConfiguration as error:
        return Configuration(), str(error)


def _read_device(state: Path) -> Device | None:
    try:
        return load_device(DiskFiles(), state)
    except (AgentError, OSError):
        return None  # the checks of state folder and certificate say why


def _read_unit() -> dict[str, str]:
    command = ["systemctl", "show", UNIT, f"--property={_PROPERTIES}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    properties = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return properties if properties.get("LoadState") == "loaded" else {}
