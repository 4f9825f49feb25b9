"""What is written on a device's disk about the releases that it holds?

`slots.json`, `agent.json` and `update.json` (the journal) are the updater's; the daemon and `shoal-agent status` read
them. Model bytes lie in `store/`, a file by the SHA-256 of its bytes: sealed files, and manifests as they were signed.
"""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.encoding import Counter, Label, ModelName, Seconds, Sha256, Text
from shoal_wire.grant import Grant
from shoal_wire.messages import Assignment, ReleaseReference
from shoal_wire.tuning import KnownChoice
from shoal_wire.update import UpdateState

SLOTS = "slots.json"
AGENT_SLOT = "agent.json"
"""The slot of the agent's own releases. It isn't among the others: no front serves it."""
JOURNAL = "update.json"
STORE = "store"
PLANS = "plans"
"""Plans that fronts built for this board, sealed; each name begins with the SHA-256 of its model's plaintext."""

MAX_BYTES = 64 << 20
"""Of slots.json and of the journal: a slot holds up to 4,096 grants for each of two releases."""


class HeldRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A release in a slot, with all that it takes to load it without the fleet."""

    reference: ReleaseReference
    epoch: Counter
    generation: Counter
    variant: Label
    grants: tuple[Grant, ...]
    """Of the variant's files and golden cases, and of other variants whose files are here for tuning to try."""
    known: tuple[KnownChoice, ...] = ()
    """What the fleet knew of the release's models on boards of this kind when it was assigned."""
    p95_ms: float | None = None
    """Latency in its own probation: the next release is measured against it where nothing newer is known."""


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A place for one model."""

    current: HeldRelease | None = None
    previous: HeldRelease | None = None
    refused: tuple[tuple[Counter, Counter], ...] = ()
    """Pairs of epoch and generation that were tried and are not tried again; the newest 32."""


class Slots(msgspec.Struct, frozen=True, kw_only=True):
    """Content of slots.json."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    slots: dict[ModelName, Slot] = {}


class AgentSlot(msgspec.Struct, frozen=True, kw_only=True):
    """Content of agent.json. A held release's variant is the name of its sealed archive."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    slot: Slot = Slot()


class Journal(msgspec.Struct, frozen=True, kw_only=True):
    """Content of update.json: one update of one slot."""

    format: Annotated[int, Meta(ge=1, le=1)] = 1
    epoch: Counter
    generation: Counter
    assignment: Assignment
    state: UpdateState
    attempts: Counter = 0
    """Starts of the updater in this state; written before each."""
    variant: Label = ""
    spare: tuple[Sha256, ...] = ()
    """Sealed files of other variants, which tuning is to try and the release can do without."""
    reason: Text = ""
    fetched_bytes: Counter = 0
    baseline_p95_ms: float | None = None
    p95_ms: float | None = None
    """What the release showed in its probation."""
    served: tuple[ModelName, ...] = ()
    """Slots whose current release served before the agent was replaced: they must serve again."""
    entered_at: Seconds = 0.0

    @property
    def is_of_agent(self) -> bool:
        """Whether the agent itself is updated, and no model."""
        return self.assignment.release == AGENT_RELEASE

    @property
    def target(self) -> ReleaseReference:
        """The release that this update leads to."""
        return ReleaseReference(self.assignment.release, self.assignment.version, self.assignment.manifest_sha256)


def stored(state: Path, sha256: str) -> Path:
    """Where the store keeps the file with that digest."""
    return state / STORE / sha256
