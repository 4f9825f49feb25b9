"""What does the device hold at this moment, as the files say that the updater and the daemon wrote?"""

import logging
from collections.abc import Callable
from pathlib import Path

from shoal_wire.envelope import PublicKey, key_id, signing_key_ids
from shoal_wire.errors import WireError
from shoal_wire.messages import Desired, TrustReport
from shoal_wire.secret import SealedSecret
from shoal_wire.update import TERMINAL

from shoal_agent.daemon.assignment import Order, Verdict, judge, needs_updater
from shoal_agent.errors import StateDamaged
from shoal_agent.files import Files
from shoal_agent.own_trees import slot_that_runs
from shoal_agent.slots import Journal, Slot, Slots
from shoal_agent.state import DESIRED, load_agent_slot, load_journal, load_slots, load_trust_report, load_trusted_keys

UPDATER_SILENCE_S = 1800.0
"""Beside the probation's own deadline."""

_LOG = logging.getLogger(__name__)


class Holdings:
    """Slots, journal, trusted keys and desired document."""

    def __init__(self, files: Files, state: Path, *, device: str, tree: str, on_change: Callable[[], None]) -> None:
        """`tree` is that of the agent that runs; `on_change` is called after each `reload`."""
        self._files = files
        self._state = state
        self._device = device
        self._tree = tree
        self._on_change = on_change
        self._is_journal_damaged = False
        self.slots = Slots()
        self._agent_slot = Slot()
        self.journal: Journal | None = None
        self.trusted: tuple[PublicKey, ...] = ()
        self.trust: TrustReport | None = None
        self.desired: Desired | None = None
        self._desired_by: frozenset[str] = frozenset()
        """Ids of the keys that signed it."""

    def reload(self) -> None:
        """Read again what the updater writes. Of a damaged slots.json or trust.json, what was read before counts."""
        try:
            self.journal, self._is_journal_damaged = load_journal(self._files, self._state), False
        except StateDamaged as error:
            _LOG.error("%s; the updater puts it aside", error)
            self.journal, self._is_journal_damaged = None, True
        try:
            self.slots = load_slots(self._files, self._state)
            self._agent_slot = load_agent_slot(self._files, self._state)
            self.trusted = load_trusted_keys(self._files, self._state)
            self.trust = load_trust_report(self._files, self._state)
        except StateDamaged as error:
            _LOG.error("%s", error)
        self._on_change()

    def load_desired(self) -> bytes | None:
        """Read the document that was accepted before; returns its bytes where its key is no longer known."""
        try:
            raw = self._files.read(self._state / DESIRED)
        except FileNotFoundError:
            return None
        judgement = judge(raw, device=self._device, keys=self.trusted, accepted=None)
        self.desired, self._desired_by = judgement.desired, _signers(raw)
        if self.desired is None:
            _LOG.error("%s: %s", DESIRED, judgement.reason)
        return raw if judgement.verdict is Verdict.ASK_FOR_KEYS else None

    def accept(self, raw: bytes, desired: Desired) -> None:
        """Put a document that was judged good on the disk."""
        self._files.write(self._state / DESIRED, raw)
        self.desired, self._desired_by = desired, _signers(raw)

    def floor(self, accepted: Order | None) -> Order | None:
        """What a document must be above. The last one may come again where it was lost from the disk, or where its key
        was replaced since: the fleet then signs the same anew."""
        counts = self._desired_by & {key_id(key) for key in self.trusted}
        if accepted is None or (self.desired is not None and counts):
            return accepted
        return accepted[0], accepted[1] - 1

    @property
    def own(self) -> Slot:
        """The slot of the agent itself, as it is true now; while an update of it goes on, as that has it."""
        is_in_update = self.journal is not None and self.journal.is_of_agent and self.journal.state not in TERMINAL
        return self._agent_slot if is_in_update else slot_that_runs(self._agent_slot, running=self._tree)

    def secrets(self) -> tuple[SealedSecret, ...]:
        """Those of the newest desired document."""
        return self.desired.secrets if self.desired else ()

    def needs_updater(self) -> bool:
        """Whether there is something to update, or a journal to put aside."""
        return self._is_journal_damaged or needs_updater(
            self.desired, slots=self.slots, own=self.own, journal=self.journal
        )

    def release_in_update(self) -> str | None:
        """The slot that the journal is about."""
        return self.journal.assignment.release if self.journal else None

    def silence_s(self) -> float:
        """How long an updater may say nothing: in probation it only listens."""
        return UPDATER_SILENCE_S + (self.journal.assignment.probation.deadline_s if self.journal else 0.0)


def _signers(raw: bytes) -> frozenset[str]:
    try:
        return frozenset(signing_key_ids(raw, what=DESIRED))
    except WireError:
        return frozenset()
