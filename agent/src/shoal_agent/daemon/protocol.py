"""What do updater and front say to the daemon?

Messages are JSON objects with a `type`; both programs get theirs from the daemon as plain objects of the same form
(docs/architecture.md lists them). A message that breaks this protocol ends the program that sent it.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from shoal_wire.encoding import Counter, Identifier, Label, ModelName, Seconds, Sha256, Text
from shoal_wire.histogram import Histogram
from shoal_wire.messages import Answer, ReleaseReference
from shoal_wire.update import UpdateState

from shoal_agent.slots import HeldRelease


class ProtocolBroken(Exception):
    """A child said something that isn't in this file."""


class Noted(msgspec.Struct, frozen=True, tag="event", tag_field="type"):
    """Something for the fleet's list of events. From updater and front."""

    name: Identifier
    detail: Text = ""


class Progress(msgspec.Struct, frozen=True, tag="progress", tag_field="type"):
    """From the updater: journal or slots were written."""


class BaselineQuestion(msgspec.Struct, frozen=True, tag="baseline", tag_field="type"):
    """From the updater: how fast is the release that serves now?"""

    release: ModelName


class CheckQuestion(msgspec.Struct, frozen=True, tag="check", tag_field="type"):
    """From the updater: does this release give the golden answers?"""

    release: HeldRelease


class Switch(msgspec.Struct, frozen=True, tag="switch", tag_field="type"):
    """From the updater: slots.json names another current release; let it serve."""

    slot: ModelName


class Settled(msgspec.Struct, frozen=True, tag="settled", tag_field="type"):
    """From the updater: what is neither current nor previous may be unloaded."""

    slot: ModelName


class Done(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """From the updater: the journal is terminal."""

    state: UpdateState


class Serving(msgspec.Struct, frozen=True, tag="serving", tag_field="type"):
    """From the front: a release serves."""

    slot: ModelName
    reference: ReleaseReference
    variant: Label = ""
    engine: Label = ""
    engine_version: Label = ""
    placement: tuple[Label, ...] = ()
    load_ms: Seconds = 0.0


class LoadFailed(msgspec.Struct, frozen=True, tag="load_failed", tag_field="type"):
    """From the front: a release can't serve; what served before still does."""

    slot: ModelName
    reference: ReleaseReference
    reason: Text = ""


class Answers(msgspec.Struct, frozen=True, tag="answers", tag_field="type"):
    """From the front: answers that must be stored before their items are done."""

    items: Annotated[tuple[Answer, ...], Meta(max_length=1024)]


class Health(msgspec.Struct, frozen=True, kw_only=True, tag="health", tag_field="type"):
    """From the front: what was counted since it loaded this release."""

    slot: ModelName
    manifest_sha256: Sha256
    answers: Counter
    errors: Counter
    deaths: Counter
    """Of workers."""
    histogram: Histogram


class Verdict(msgspec.Struct, frozen=True, tag="verdict", tag_field="type"):
    """From a checking front: whether the golden cases gave their answers."""

    passed: bool
    reason: Text = ""


UpdaterMessage = Noted | Progress | BaselineQuestion | CheckQuestion | Switch | Settled | Done
FrontMessage = Noted | Serving | LoadFailed | Answers | Health
CheckMessage = Noted | Verdict


def parse_updater_message(message: dict[str, Any]) -> UpdaterMessage:
    """Raises ProtocolBroken."""
    return _convert(message, UpdaterMessage, "updater")  # type: ignore[no-any-return]


def parse_front_message(message: dict[str, Any]) -> FrontMessage:
    """Raises ProtocolBroken."""
    return _convert(message, FrontMessage, "front")  # type: ignore[no-any-return]


def parse_check_message(message: dict[str, Any]) -> CheckMessage:
    """Raises ProtocolBroken."""
    return _convert(message, CheckMessage, "checking front")  # type: ignore[no-any-return]


def _convert(message: dict[str, Any], kind: Any, who: str) -> Any:
    try:
        return msgspec.convert(message, kind)
    except msgspec.ValidationError as error:
        raise ProtocolBroken(f"{who}: a message of type {str(message.get('type'))[:40]!r}: {error}") from None
