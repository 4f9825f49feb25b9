"""Is a desired document good and newer than what the device has, and is there anything to do about it?"""

import enum
from collections.abc import Collection
from typing import NamedTuple

from shoal_wire import envelope
from shoal_wire.encoding import decode
from shoal_wire.envelope import PublicKey, key_id
from shoal_wire.errors import WireError
from shoal_wire.messages import Desired
from shoal_wire.update import TERMINAL

from shoal_agent.pending import choose_assignment
from shoal_agent.slots import Journal, Slot, Slots

Order = tuple[int, int]
"""Epoch and generation."""


class Verdict(enum.Enum):
    """What to do with a document."""

    ACCEPT = "accept"
    IGNORE = "ignore"
    """What the device has already, or an older one that the broker kept."""
    REFUSE = "refuse"
    ASK_FOR_KEYS = "ask for keys"
    """Signed by a key that isn't known: there may be newer keys in the signed metadata."""


class Judgement(NamedTuple):
    """A verdict, with the document where it is accepted and the reason where it isn't."""

    verdict: Verdict
    desired: Desired | None = None
    reason: str = ""


def judge(raw: bytes, *, device: str, keys: Collection[PublicKey], accepted: Order | None) -> Judgement:
    """Judge the bytes of a desired document. `accepted` is the order of the newest that was accepted, if any."""
    try:
        claimed = set(envelope.signing_key_ids(raw, what="desired"))
        if not claimed & {key_id(key) for key in keys}:
            return Judgement(Verdict.ASK_FOR_KEYS, reason=f"desired: signed by the unknown key {min(claimed)[:12]}")
        desired = decode(envelope.verify(raw, envelope.DESIRED, keys, what="desired"), Desired, what="desired")
    except WireError as error:
        return Judgement(Verdict.REFUSE, reason=str(error))
    if desired.device != device:
        return Judgement(Verdict.REFUSE, reason=f"desired: expected one for {device}, found one for {desired.device}")
    if accepted is not None and desired.order <= accepted:
        return Judgement(Verdict.IGNORE, reason=f"desired: {desired.order} isn't newer than {accepted}")
    twice = [assignment.release for assignment in desired.assignments]
    if len(set(twice)) != len(twice):
        return Judgement(Verdict.REFUSE, reason="desired: assigns one release twice")
    return Judgement(Verdict.ACCEPT, desired)


def needs_updater(desired: Desired | None, *, slots: Slots, own: Slot, journal: Journal | None) -> bool:
    """Whether the updater has something to do: an update that hasn't ended, or a release that isn't current.

    `own` is the slot of the agent itself.
    """
    if journal is not None and journal.state not in TERMINAL:
        return True
    return desired is not None and choose_assignment(desired, slots, journal, own=own) is not None
