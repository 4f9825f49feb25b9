"""What do the steps of an update work with?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from shoal_agent.credentials import clock_is_plausible, find_credentials, read_lifetime
from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
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
    patience: Patience
    now: Callable[[], float]
    """Unix seconds."""
    monotonic: Callable[[], float]

    def save(self, journal: Journal) -> None:
        """Write the journal, then tell the daemon."""
        self.records.write_journal(journal)
        self.daemon.progress()

    def change_slot(self, release: str, change: Callable[[Slot], Slot]) -> Slot:
        """Write the slot as `change` makes it, then tell the daemon. One that stays as it is isn't written."""
        slots = self.records.slots()
        before = slots.slots.get(release, Slot())
        after = change(before)
        if after != before:
            self.records.write_slots(replace(slots, slots={**slots.slots, release: after}))
        self.daemon.progress()
        return after


def make_tools(
    state: Path,
    *,
    files: Files,
    channel: DaemonChannel,
    board: Board,
    patience: Patience,
) -> Tools:
    """Wire the updater of one state folder.

    Raises:
        BrokenInstallation: enrolment's files are missing or damaged.
    """
    records = Records(state, files=files)
    try:
        is_plausible = clock_is_plausible(read_lifetime(files, state), now=time.time())
    except StateDamaged as error:
        raise BrokenInstallation(str(error)) from None
    credentials = find_credentials(files, state)
    http = FleetHttp(records.device().devices_url, credentials=credentials, checks_time=is_plausible)
    return Tools(
        records=records,
        daemon=DaemonLink(channel),
        http=http,
        trust=Trust(records, source=http, url=http.url, now=time.time),
        board=board,
        patience=patience,
        now=time.time,
        monotonic=time.monotonic,
    )
