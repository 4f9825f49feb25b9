"""What does the updater keep on disk, and how is it read back?

Each file is written whole or not at all. trust.json, revoked.json and the TUF cache are `trust.py`'s.
"""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace
from shoal_wire.encoding import DeviceId, Label, ModelName, StructT, Version, decode_struct, encode
from shoal_wire.errors import Malformed, WireError
from shoal_wire.manifest import Manifest, parse_manifest
from shoal_wire.messages import TrustReport
from shoal_wire.metadata import Floors

from shoal_agent.files import Files, temporary_path
from shoal_agent.slots import (
    AGENT_SLOT,
    JOURNAL,
    MAX_BYTES,
    SLOTS,
    STORE,
    AgentSlot,
    HeldRelease,
    Journal,
    Slot,
    Slots,
    stored,
)
from shoal_agent.state import AUTHORITIES, AUTHORITY, TIME, TRUST_REPORT
from shoal_agent.updater.errors import BrokenInstallation, UnreadableJournal
from shoal_agent.updater.time_floor import TimeFloor

DEVICE = "device.json"
DESIRED = "desired.dsse"
TRUST = "trust.json"
REVOKED = "revoked.json"
FLOORS = "floors.json"
WAITING = "waiting.json"
"""`waiting.py`'s."""
REPORT_S = 3600.0

UNREADABLE_JOURNAL = "update.json.unreadable"
PART = ".part"

_WRITTEN_HERE = (
    *(SLOTS, AGENT_SLOT, JOURNAL, UNREADABLE_JOURNAL, TRUST, REVOKED, FLOORS, TIME, TRUST_REPORT),
    *(AUTHORITIES, AUTHORITY, WAITING),
)


class Device(msgspec.Struct, frozen=True):
    """What enrolment wrote, as far as the updater reads it."""

    device: DeviceId
    devices_url: Label


class RaisedFloors(msgspec.Struct, frozen=True, kw_only=True):
    """Content of floors.json: the lowest version still allowed of each model, the highest that was ever signed."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    floors: dict[ModelName, Version] = {}


class Records:
    """The files of a state folder."""

    def __init__(self, state: Path, *, files: Files) -> None:
        """`state` is the agent's state folder."""
        self.state = state
        self.files = files

    def device(self) -> Device:
        """Raises BrokenInstallation."""
        return self._read(DEVICE, Device)

    def journal(self) -> Journal | None:
        """The journal; None before the first update.

        Raises:
            UnreadableJournal: it is damaged.
        """
        try:
            return decode_struct(self.files.read(self.state / JOURNAL), Journal, what=JOURNAL, limit_bytes=MAX_BYTES)
        except FileNotFoundError:
            return None
        except Malformed as error:
            raise UnreadableJournal(str(error)) from None

    def write_journal(self, journal: Journal) -> None:
        """On disk when this returns."""
        self.files.write(self.state / JOURNAL, encode(journal))

    def keep_unreadable_journal(self) -> None:
        """Copy a damaged journal for people to look at."""
        self.files.write(self.state / UNREADABLE_JOURNAL, self.files.read(self.state / JOURNAL))

    def remove_journal(self) -> None:
        """Forget the journal."""
        self.files.remove(self.state / JOURNAL)

    def slots(self) -> Slots:
        """Raises BrokenInstallation."""
        return self._read(SLOTS, Slots) if self.files.size(self.state / SLOTS) else Slots()

    def write_slots(self, slots: Slots) -> None:
        """On disk when this returns."""
        self.files.write(self.state / SLOTS, encode(slots))

    def agent_slot(self) -> Slot:
        """That of the agent's own releases. Raises BrokenInstallation."""
        path = self.state / AGENT_SLOT
        return self._read(AGENT_SLOT, AgentSlot).slot if self.files.size(path) else Slot()

    def write_agent_slot(self, slot: Slot) -> None:
        """On disk when this returns."""
        self.files.write(self.state / AGENT_SLOT, encode(AgentSlot(slot=slot)))

    def floors(self) -> dict[str, int]:
        """Raises BrokenInstallation."""
        return dict(self._read(FLOORS, RaisedFloors).floors) if self.files.size(self.state / FLOORS) else {}

    def write_floors(self, floors: dict[str, int]) -> None:
        """On disk when this returns."""
        self.files.write(self.state / FLOORS, encode(RaisedFloors(floors=floors)))

    def revoked(self) -> Floors:
        """What the release key revoked, as it is signed now. Raises BrokenInstallation."""
        return self._read(REVOKED, Floors) if self.files.size(self.state / REVOKED) else Floors()

    def time_floor(self) -> TimeFloor:
        """Raises BrokenInstallation."""
        return self._read(TIME, TimeFloor) if self.files.size(self.state / TIME) else TimeFloor()

    def write_time_floor(self, floor: TimeFloor) -> None:
        """On disk when this returns; nothing is written where it is as it was."""
        if floor != self.time_floor():
            self.files.write(self.state / TIME, encode(floor))

    def trust_report(self) -> TrustReport:
        """How the last look at the metadata went; an empty one before the first. Raises BrokenInstallation."""
        path = self.state / TRUST_REPORT
        return self._read(TRUST_REPORT, TrustReport) if self.files.size(path) else TrustReport(at=0.0)

    def write_trust_report(self, report: TrustReport) -> None:
        """On disk when this returns; what says the same as an hour ago isn't written again."""
        before = self.trust_report()
        if replace(before, at=report.at) == report and 0 <= report.at - before.at < REPORT_S:
            return
        self.files.write(self.state / TRUST_REPORT, encode(report))

    def manifest(self, manifest_sha256: str) -> Manifest:
        """A manifest of the store, whose digest was checked when it was put there.

        Raises:
            BrokenInstallation: it isn't there, or is damaged.
        """
        path = stored(self.state, manifest_sha256)
        try:
            return parse_manifest(self.files.read(path))
        except FileNotFoundError:
            raise BrokenInstallation(f"{path}: the manifest is missing") from None
        except WireError as error:
            raise BrokenInstallation(f"{path}: {error}") from None

    def held(self) -> list[HeldRelease]:
        """Every release in a slot of a model: of the agent's own, nothing in the store is needed any more."""
        slots = self.slots().slots.values()
        return [held for slot in slots for held in (slot.current, slot.previous) if held is not None]

    def part(self, sha256: str) -> Path:
        """Where a file of the store grows while it is fetched."""
        return stored(self.state, sha256 + PART)

    def store_names(self) -> list[str]:
        """Names in the store."""
        return self.files.names(self.state / STORE)

    def remove_temporary(self) -> None:
        """Forget what writes of this folder's files left behind when they were cut short."""
        for name in _WRITTEN_HERE:
            left = temporary_path(self.state / name)
            if left.name in self.files.names(self.state):
                self.files.remove(left)

    def _read(self, name: str, kind: type[StructT]) -> StructT:
        path = self.state / name
        try:
            return decode_struct(self.files.read(path), kind, what=str(path), limit_bytes=MAX_BYTES)
        except FileNotFoundError:
            raise BrokenInstallation(f"{path} is missing: was this board enrolled?") from None
        except Malformed as error:
            raise BrokenInstallation(str(error)) from None
