"""What do the steps of an update work with?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.messages import Assignment, Desired

from shoal_agent.credentials import judging_time, make_context
from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
from shoal_agent.own_trees import Launch, OwnTrees, slot_that_runs
from shoal_agent.pending import choose_assignment
from shoal_agent.slots import Journal, Slot
from shoal_agent.updater.daemon_link import DaemonChannel, DaemonLink
from shoal_agent.updater.errors import BrokenInstallation
from shoal_agent.updater.fetch import Patience
from shoal_agent.updater.http_client import FleetHttp
from shoal_agent.updater.planning import Board
from shoal_agent.updater.records import Records
from shoal_agent.updater.trust import Trust


@dataclass(frozen=True)
class Tools:
    """Disk, daemon and fleet, and what is known of the board."""

    records: Records
    daemon: DaemonLink
    http: FleetHttp
    trust: Trust
    board: Board
    own: OwnTrees | None
    """Trees of the agent itself; None where no package installed it."""
    patience: Patience
    now: Callable[[], float]
    """Unix seconds."""
    monotonic: Callable[[], float]

    def save(self, journal: Journal) -> None:
        """Write the journal, then tell the daemon."""
        self.records.write_journal(journal)
        self.daemon.progress()

    def slot(self, release: str) -> Slot:
        """The slot of a model, or of the agent itself."""
        if release == AGENT_RELEASE:
            return self.records.agent_slot()
        return self.records.slots().slots.get(release, Slot())

    def change_slot(self, release: str, change: Callable[[Slot], Slot]) -> Slot:
        """Write the slot as `change` makes it, then tell the daemon. One that stays as it is isn't written."""
        before = self.slot(release)
        after = change(before)
        if after != before:
            if release == AGENT_RELEASE:
                self.records.write_agent_slot(after)
            else:
                slots = self.records.slots()
                self.records.write_slots(replace(slots, slots={**slots.slots, release: after}))
        self.daemon.progress()
        return after

    def choose(self, desired: Desired, last: Journal | None) -> Assignment | None:
        """The first release that the board should run and doesn't."""
        own = slot_that_runs(self.records.agent_slot(), running=self.own.running if self.own else "")
        return choose_assignment(desired, self.records.slots(), last, own=own)


def make_tools(
    state: Path,
    *,
    files: Files,
    channel: DaemonChannel,
    board: Board,
    launch: Launch,
    patience: Patience,
) -> Tools:
    """Wire the updater of one state folder.

    Raises:
        BrokenInstallation: enrolment's files are missing or damaged.
    """
    records = Records(state, files=files)
    try:
        context = make_context(files, state, at=judging_time(files, state, now=time.time()))
    except StateDamaged as error:
        raise BrokenInstallation(str(error)) from None
    http = FleetHttp(records.device().devices_url, context=context)
    return Tools(
        records=records,
        daemon=DaemonLink(channel),
        http=http,
        trust=Trust(records, source=http, url=http.url, now=time.time),
        board=board,
        own=OwnTrees(launch, files=files) if launch.folder else None,
        patience=patience,
        now=time.time,
        monotonic=time.monotonic,
    )
