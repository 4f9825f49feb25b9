"""What becomes of a slot when an update switches, commits, falls back or refuses? Rules only.

Each change is one write of slots.json, and gives the same slot when it is made twice.
"""

from msgspec.structs import replace

from shoal_agent.slots import HeldRelease, Journal, Slot

MAX_REFUSED = 32


def switch(slot: Slot, candidate: HeldRelease, *, may_go_back: bool) -> Slot:
    """The candidate becomes current, what was current becomes previous, unless it was revoked."""
    if _holds(slot, candidate.reference.manifest_sha256):
        return slot
    return replace(slot, current=candidate, previous=slot.current if may_go_back else None)


def drop_previous(slot: Slot) -> Slot:
    """There is nothing to go back to any more."""
    return replace(slot, previous=None)


def commit(slot: Slot, journal: Journal) -> Slot:
    """The current release stays, with the latency that it showed."""
    if slot.current is None or not _holds(slot, journal.target.manifest_sha256):
        return slot
    return replace(slot, current=replace(slot.current, p95_ms=journal.p95_ms))


def fall_back(slot: Slot, journal: Journal) -> Slot:
    """The previous release becomes current again, and the generation is marked: both in one write.

    A first release has no previous, nor has one that follows a revoked one: the slot is empty afterwards.
    """
    marked = refuse(slot, journal)
    if not _holds(slot, journal.target.manifest_sha256):
        return marked
    return replace(marked, current=slot.previous, previous=None)


def refuse(slot: Slot, journal: Journal) -> Slot:
    """The generation is marked as tried, so that it is never tried again."""
    pair = (journal.epoch, journal.generation)
    if pair in slot.refused:
        return slot
    return replace(slot, refused=(*slot.refused, pair)[-MAX_REFUSED:])


def _holds(slot: Slot, manifest_sha256: str) -> bool:
    return slot.current is not None and slot.current.reference.manifest_sha256 == manifest_sha256
