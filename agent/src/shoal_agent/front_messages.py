"""What do the daemon and a front say to each other?

    daemon                                      front
    hello                                  <->  hello
    Configure                               ->
    Load                                    ->
                                           <-   Serving or LoadFailed
    Unload (after commit or fall-back)      ->
                                           <-   Answers, Health, WorkerDied, Stopped, Notice (whenever)
    Stored (answers are in the outbox)      ->
    Check (to a front started with --check) ->
                                           <-   Verdict, and the end

Each is a JSON object whose `type` names it. End of stream ends the front; a front that breaks this protocol is ended.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, Identifier, Label, ModelName, Seconds, Sha256
from shoal_wire.histogram import Histogram
from shoal_wire.messages import Answer, ReleaseReference

from shoal_agent.configuration import SlotSetting
from shoal_agent.slots import HeldRelease
from shoal_agent.tuned import ServingChoice

QUARANTINE_DEATHS = 2
"""Deaths of workers after which the item that they ran is not run again: one death may be anybody's doing."""


class Source(msgspec.Struct, frozen=True):
    """Where items come from. `path` is a folder whose files are taken, and removed once their answer is stored."""

    name: str
    kind: str
    path: str
    release: str


class Configure(msgspec.Struct, frozen=True, tag="configure"):
    """How a front works; sent once, first."""

    device: str
    sources: tuple[Source, ...] = ()
    threads: int = 0
    """For all workers together; 0 means what the kernel allows."""
    slots: dict[str, SlotSetting] = {}
    interpreters: dict[str, str] = {}
    """Interpreter by engine; engines that aren't named run in the front's own."""
    engines: tuple[str, ...] = ()
    """That may run models; empty means all that are found."""
    groups: str = ""
    """Control group below which each worker may have one of its own; empty where there is none."""
    suspects: dict[Sha256, int] = {}
    """Deaths of workers by the digest of the item that was being run."""


class Load(msgspec.Struct, frozen=True, tag="load"):
    """Serve this release from now on. The one that served stays loaded until Unload.

    If it serves already and `tuned` has it run in another way, it is loaded anew and takes its own place.
    """

    slot: str
    held: HeldRelease
    store: str
    content_keys: dict[str, str]
    """Content key in base64, by the digest of the sealed file."""
    tuned: dict[ModelName, ServingChoice] = {}
    """What tuning chose on this board, by model; good only where the files are those of a variant."""


class Unload(msgspec.Struct, frozen=True, tag="unload"):
    """Let go of every loaded release of the slot whose manifest isn't named."""

    slot: str
    keep: tuple[str, ...]


class Check(msgspec.Struct, frozen=True, tag="check"):
    """Run the golden cases of a release, in the way in which it would serve."""

    held: HeldRelease
    store: str
    content_keys: dict[str, str]
    tuned: dict[ModelName, ServingChoice] = {}


class Stored(msgspec.Struct, frozen=True, tag="stored"):
    """These answers are on disk in the outbox: their items are done."""

    answer_ids: tuple[str, ...]


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """The release serves."""

    slot: ModelName
    reference: ReleaseReference
    variant: Label = ""
    engine: Label = ""
    engine_version: Label = ""
    placement: tuple[Label, ...] = ()
    load_ms: Seconds = 0.0


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed"):
    """The release can't serve here, or not in the way that it was asked to; what served before still does."""

    slot: ModelName
    reference: ReleaseReference
    reason: str


class Stopped(msgspec.Struct, frozen=True, tag="stopped"):
    """A release that served serves no more: no engine is left for it, or it makes place for what is being loaded."""

    slot: ModelName
    reference: ReleaseReference
    reason: str
    makes_place: bool = False


class WorkerDied(msgspec.Struct, frozen=True, kw_only=True, tag="worker_died"):
    """A worker was lost that should have lived."""

    slot: ModelName
    reference: ReleaseReference
    engine: Label
    engine_version: Label
    reason: str
    exit_code: int | None
    """Below 0 for the number of a signal; None where it hung and was killed."""
    peak_bytes: Counter
    """The most memory that it was seen to hold; 0 where nobody saw."""
    item_sha256: Sha256 | None
    """Of the item that was being run."""


class CaseResult(msgspec.Struct, frozen=True):
    """How one golden case went."""

    name: str
    passed: bool
    detail: str


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """Whether a release answers its golden cases on this board. From a checking front, which then ends."""

    passed: bool
    reason: str
    cases: tuple[CaseResult, ...] = ()
    is_untuned: bool = False
    """It passed only without what tuning chose, which must not serve it then."""
    is_short: bool = False
    """There was no memory for it beside what serves. Of one that passed untuned: for what tuning chose."""


class Answers(msgspec.Struct, frozen=True, tag="answers"):
    """Answers that must be stored before their items are done."""

    items: Annotated[tuple[Answer, ...], Meta(max_length=1024)]


class Health(msgspec.Struct, frozen=True, kw_only=True, tag="health"):
    """Counts since this front loaded the release that serves; they begin at 0 when it is loaded anew."""

    slot: ModelName
    manifest_sha256: Sha256
    load: Counter = 0
    """Tells one load of this front from another, of the same release too."""
    answers: Counter
    errors: Counter
    deaths: Counter
    """Of workers, however many of one item."""
    histogram: Histogram


class Notice(msgspec.Struct, frozen=True, tag="event"):
    """Something for the fleet's list of events."""

    name: Identifier
    detail: str = ""


FromDaemon = Configure | Load | Unload | Check | Stored
FromFront = Serving | LoadFailed | Stopped | WorkerDied | Verdict | Answers | Health | Notice


def parse_from_daemon(message: dict[str, Any]) -> FromDaemon:
    """Raises msgspec.ValidationError, which never holds a content key."""
    parsed: FromDaemon = msgspec.convert(message, FromDaemon)
    return parsed


def parse_from_front(message: dict[str, Any]) -> FromFront:
    """Raises msgspec.ValidationError."""
    parsed: FromFront = msgspec.convert(message, FromFront)
    return parsed


def as_frame(message: FromDaemon | FromFront) -> dict[str, Any]:
    """A message as the channel sends it."""
    frame: dict[str, Any] = msgspec.to_builtins(message)
    return frame
