"""What do updater and front say to the daemon, checked as it comes?

A message that breaks the protocol ends the program that sent it. Those of the front are in `front_messages.py`.
"""

from typing import Any

import msgspec
from shoal_wire.encoding import ModelName
from shoal_wire.update import UpdateState

from shoal_agent.front_messages import FromFront, Notice
from shoal_agent.slots import HeldRelease


class ProtocolBroken(Exception):
    """A child said something that isn't in this file."""


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


UpdaterMessage = Notice | Progress | BaselineQuestion | CheckQuestion | Switch | Settled | Done


def parse_updater_message(message: dict[str, Any]) -> UpdaterMessage:
    """Raises ProtocolBroken."""
    return _convert(message, UpdaterMessage, "updater")  # type: ignore[no-any-return]


def parse_front_message(message: dict[str, Any]) -> FromFront:
    """Raises ProtocolBroken."""
    return _convert(message, FromFront, "front")  # type: ignore[no-any-return]


def _convert(message: dict[str, Any], kind: Any, who: str) -> Any:
    try:
        return msgspec.convert(message, kind)
    except msgspec.ValidationError as error:
        raise ProtocolBroken(f"{who}: a message of type {str(message.get('type'))[:40]!r}: {error}") from None
