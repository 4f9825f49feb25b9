"""What does a board say about itself to somebody who stands before it?

Read from the files of the state folder: it works with the fleet out of reach and with the daemon stopped.
"""

import fcntl
import os
from pathlib import Path

import msgspec
from shoal_wire.messages import ReleaseReference
from shoal_wire.update import UpdateState
from shoal_worker import sandbox

from shoal_agent.files import Files
from shoal_agent.own_trees import CURRENT, NOT_LAUNCHED, TRIAL, VERSIONS, Launch
from shoal_agent.slots import Journal
from shoal_agent.state import LOCK, load_device, load_journal, load_slots


class SlotStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the device holds for one model."""

    release: str
    current: ReleaseReference | None
    variant: str
    previous: ReleaseReference | None
    refused: tuple[int, ...]
    """Generations that were tried and are not tried again."""


class UpdateStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The update in progress, or how the last one ended."""

    target: ReleaseReference
    generation: int
    state: UpdateState
    attempts: int
    reason: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """All that `shoal-agent status` says."""

    device: str
    name: str
    profile: str
    is_running: bool
    tree: str
    """Name of the tree that the agent is started from: its package's own where this is empty."""
    tree_folder: str
    """Where that tree lies; empty for the package's own."""
    package_version: str
    """Of the package's own agent; empty where this agent wasn't installed by a package."""
    is_on_trial: bool
    """That tree has yet to show that it reaches its fleet."""
    sandbox: tuple[str, ...]
    """What this kernel offers to hold workers in."""
    slots: tuple[SlotStatus, ...]
    update: UpdateStatus | None


def read_status(files: Files, state: Path, *, launch: Launch = NOT_LAUNCHED) -> Status:
    """Read it from the state folder, and from the folder of trees where a launcher started this.

    Raises:
        NotEnrolled, StateDamaged: see `state.py`.
    """
    device = load_device(files, state)
    journal = load_journal(files, state)
    slots = load_slots(files, state).slots
    tree = _link(launch, CURRENT)
    return Status(
        device=device.device,
        name=device.name,
        profile=device.profile,
        is_running=_is_locked(state / LOCK),
        tree=tree,
        tree_folder=str(launch.folder / VERSIONS / tree) if launch.folder and tree else "",
        package_version=launch.package_version,
        is_on_trial=tree != "" and tree == _link(launch, TRIAL),
        sandbox=sandbox.offered().parts,
        slots=tuple(
            SlotStatus(
                release=release,
                current=slot.current.reference if slot.current else None,
                variant=slot.current.variant if slot.current else "",
                previous=slot.previous.reference if slot.previous else None,
                refused=tuple(generation for _, generation in slot.refused),
            )
            for release, slot in sorted(slots.items())
        ),
        update=_update_status(journal) if journal else None,
    )


def write_status(status: Status) -> str:
    """The status as lines for a person."""
    running = "running" if status.is_running else "not running"
    lines = [
        f"device   {status.device} ({status.name}, {status.profile}), {running}",
        f"agent    {_describe_tree(status)}",
        f"sandbox  {', '.join(status.sandbox) or 'none: see shoal-agent doctor'}",
    ]
    for slot in status.slots:
        lines.append(f"slot     {slot.release}: current {_name(slot.current)}, previous {_name(slot.previous)}")
        if slot.refused:
            lines.append(f"refused  {slot.release}: generations {', '.join(map(str, slot.refused))}")
    if not status.slots:
        lines.append("slot     none: no release was assigned yet")
    if status.update:
        reason = f": {status.update.reason}" if status.update.reason else ""
        lines.append(f"update   {_name(status.update.target)} is {status.update.state.value}{reason}")
    return "\n".join(lines)


def _describe_tree(status: Status) -> str:
    if status.tree:
        return f"{status.tree_folder}{', on trial until its fleet hears from it' if status.is_on_trial else ''}"
    return f"its package's own, {status.package_version}" if status.package_version else "not of a package"


def _update_status(journal: Journal) -> UpdateStatus:
    return UpdateStatus(
        target=journal.target,
        generation=journal.generation,
        state=journal.state,
        attempts=journal.attempts,
        reason=journal.reason,
    )


def _name(reference: ReleaseReference | None) -> str:
    return f"{reference.release} {reference.version} ({reference.manifest_sha256[:12]})" if reference else "none"


def _link(launch: Launch, name: str) -> str:
    """Name of the tree that a link of the folder of trees leads to; empty where there is no such link."""
    try:
        return "" if launch.folder is None else (launch.folder / name).readlink().name
    except OSError:
        return ""


def _is_locked(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
