"""What becomes of the releases that this board holds when signed metadata has changed?

What was revoked is never gone back to: it is taken out of `previous` at once, where neither a fall-back nor a front
finds it. What serves goes on, as a board that stopped by itself would be worse; the board says so until it is updated.
"""

from msgspec.structs import replace
from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.messages import ReleaseReference
from shoal_wire.metadata import Floors

from shoal_agent.slots import HeldRelease
from shoal_agent.updater import slot_changes
from shoal_agent.updater.errors import Untrustworthy
from shoal_agent.updater.planning import find_revocation
from shoal_agent.updater.tools import Tools


def renew(tools: Tools) -> None:
    """Renew trust, act on what was revoked, and write down how it went.

    Raises:
        Untrustworthy, TryLater, BrokenInstallation: as `Trust.refresh`.
    """
    records = tools.records
    before = records.trust_report()
    try:
        report = tools.trust.refresh()
    except Untrustworthy as error:
        reading = tools.trust.read_time()
        trouble = str(error)[:4000]
        records.write_trust_report(
            replace(before, at=reading.at, is_clock_behind=reading.is_clock_behind, trouble=trouble)
        )
        raise
    records.write_trust_report(replace(report, revoked=_act(tools, known=before.revoked)))
    tools.daemon.progress()


def revocation_of(held: HeldRelease, tools: Tools) -> str | None:
    """Why a release on this board may not be gone back to; None where it may."""
    records, digest = tools.records, held.reference.manifest_sha256
    return find_revocation(records.manifest(digest), digest, revoked=records.revoked())


def _act(tools: Tools, *, known: tuple[str, ...]) -> tuple[str, ...]:
    """Take what was revoked out of reach; returns the slots whose current release was."""
    revoked = []
    for name, slot in sorted(tools.records.slots().slots.items()):
        if slot.previous is not None and (reason := revocation_of(slot.previous, tools)) is not None:
            tools.change_slot(name, slot_changes.drop_previous)
            tools.daemon.event("previous-revoked", f"{reason}; this board doesn't go back to it any more")
        if slot.current is not None and (reason := revocation_of(slot.current, tools)) is not None:
            revoked.append(name)
            if name not in known:
                tools.daemon.event("release-revoked", f"{reason}; this board keeps it until it is updated")
    agent = tools.records.agent_slot().current
    if agent is not None and _is_agent_revoked(agent.reference, revoked=tools.records.revoked()):
        revoked.append(AGENT_RELEASE)
        if AGENT_RELEASE not in known:
            what = f"release {agent.reference.release} {agent.reference.version}"
            tools.daemon.event("release-revoked", f"{what}: was revoked; this board runs it until it is updated")
    return tuple(revoked[:16])


def _is_agent_revoked(reference: ReleaseReference, *, revoked: Floors) -> bool:
    """The agent's manifest isn't kept, and isn't needed: its floor is that of the release's name."""
    return reference.manifest_sha256 in revoked.revoked or reference.version < revoked.floors.get(AGENT_RELEASE, 0)
