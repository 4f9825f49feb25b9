"""What do the daemon and the updater say to each other?

    updater                                daemon
    hello                             <->  hello
    Progress, Notice                   ->
    BaselineQuestion                   ->
                                      <-   Baseline
    CheckQuestion                      ->
                                      <-   Verdict
    Switch                             ->
                                      <-   Serving or ServeFailed
    Settled, Done                      ->
    KeysQuestion, AgentQuestion        ->
                                      <-   Keys, AgentHealth
    Restart                            ->
                                      <-   Health (about twice a second), Superseded (whenever)

Each is a JSON object whose `type` names it. End of stream ends the updater; an updater that breaks this protocol is
ended.
"""

from typing import Any

import msgspec
from shoal_wire.encoding import Counter, Label, ModelName, Sha256, Text
from shoal_wire.histogram import Histogram
from shoal_wire.messages import ReleaseReference
from shoal_wire.update import UpdateState

from shoal_agent.front_messages import Notice
from shoal_agent.slots import HeldRelease


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """Journal or slots were written."""


class BaselineQuestion(msgspec.Struct, frozen=True, tag="baseline"):
    """How fast is the release that serves now?"""

    release: ModelName


class CheckQuestion(msgspec.Struct, frozen=True, tag="check"):
    """Does this release give the golden answers?"""

    release: HeldRelease


class Switch(msgspec.Struct, frozen=True, tag="switch"):
    """slots.json names another current release; let it serve."""

    slot: ModelName


class Settled(msgspec.Struct, frozen=True, tag="settled"):
    """What is neither current nor previous in the slot may be unloaded."""

    slot: ModelName


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The journal is terminal."""

    state: UpdateState


class KeysQuestion(msgspec.Struct, frozen=True, tag="keys"):
    """Which content keys open the files of this release of the agent?"""

    release: HeldRelease


class AgentQuestion(msgspec.Struct, frozen=True, tag="agent"):
    """How does the agent do that runs now?"""


class Restart(msgspec.Struct, frozen=True, tag="restart"):
    """End the daemon, and with it the agent: whoever started it starts the next."""


class Keys(msgspec.Struct, frozen=True, tag="keys"):
    """Content keys in base64, by the digest of the sealed file."""

    content_keys: dict[Sha256, Label]
    reason: Text = ""
    """Why there are none."""


class AgentHealth(msgspec.Struct, frozen=True, tag="agent_health"):
    """What this start of the daemon has come to."""

    is_reported: bool
    """The fleet has acknowledged a report of this start."""
    serving: tuple[ModelName, ...]
    """Slots whose current release serves."""


class Baseline(msgspec.Struct, frozen=True, tag="baseline"):
    """Latency of the release that serves now, since its front loaded it."""

    p95_ms: float | None
    answers: Counter


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """How a release answered its golden cases. `unavailable`: nobody could tell."""

    passed: bool
    reason: Text = ""
    unavailable: bool = False
    is_short: bool = False
    """Nobody could tell for want of memory, of which there may be more later."""


class SwitchReply(msgspec.Struct, frozen=True):
    """Whether the slot's current release serves."""


class Serving(SwitchReply, frozen=True, tag="serving"):
    """This release serves now."""

    reference: ReleaseReference


class ServeFailed(SwitchReply, frozen=True, tag="serve_failed"):
    """The release in the slot can't be served."""

    reason: Text


class Health(msgspec.Struct, frozen=True, kw_only=True, tag="health"):
    """Counts of a release since it was loaded; deaths since the switch."""

    release: Label
    manifest_sha256: Sha256
    answers: Counter
    errors: Counter
    deaths: Counter
    """Of fronts, and of workers; an item that several workers died of counts once."""
    histogram: Histogram
    serving: bool


class Superseded(msgspec.Struct, frozen=True, tag="superseded"):
    """A newer desired document was accepted."""


FromUpdater = (
    Progress
    | Notice
    | BaselineQuestion
    | CheckQuestion
    | Switch
    | Settled
    | Done
    | KeysQuestion
    | AgentQuestion
    | Restart
)
FromDaemon = Baseline | Verdict | Serving | ServeFailed | Health | Superseded | Keys | AgentHealth

KNOWN_FROM_DAEMON = frozenset(
    ("baseline", "verdict", "serving", "serve_failed", "health", "superseded", "keys", "agent_health")
)
"""Types that this updater understands; another one is of a newer daemon."""


def parse_from_updater(message: dict[str, Any]) -> FromUpdater:
    """Raises msgspec.ValidationError."""
    parsed: FromUpdater = msgspec.convert(message, FromUpdater)
    return parsed


def parse_from_daemon(message: dict[str, Any]) -> FromDaemon:
    """Raises msgspec.ValidationError."""
    parsed: FromDaemon = msgspec.convert(message, FromDaemon)
    return parsed


def as_frame(message: FromDaemon | FromUpdater) -> dict[str, Any]:
    """A message as the channel sends it."""
    frame: dict[str, Any] = msgspec.to_builtins(message)
    return frame
