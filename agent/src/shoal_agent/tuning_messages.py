"""What do the daemon and a tuning child say to each other?

    daemon                                      tuning
    hello                                  <->  hello
    Tune                                    ->
                                           <-   Found or NotFound, for each model of the release
                                           <-   Done, and the end

Each is a JSON object whose `type` names it. End of stream ends the child, in whatever it does.
"""

from typing import Any

import msgspec
from shoal_wire.encoding import ModelName, Text
from shoal_wire.messages import Tuned

from shoal_agent.configuration import Configuration
from shoal_agent.slots import HeldRelease


class Tune(msgspec.Struct, frozen=True, kw_only=True, tag="tune"):
    """Find out what serves this release's models best on this board."""

    held: HeldRelease
    state: str
    """The state folder: sealed files are read from its store, verdicts are written to its `tuning`."""
    content_keys: dict[str, str]
    """Content key in base64, by the digest of the sealed file."""
    configuration: Configuration


class Found(msgspec.Struct, frozen=True, tag="found"):
    """The verdict on a model; it and its choice are on the disk."""

    row: Tuned


class NotFound(msgspec.Struct, frozen=True, tag="not_found"):
    """A model that can't be tuned here, or of which no candidate answers right."""

    model: ModelName
    reason: Text


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Every model of the release had its turn."""


FromTuning = Found | NotFound | Done


def parse_from_daemon(message: dict[str, Any]) -> Tune:
    """Raises msgspec.ValidationError, which never holds a content key."""
    return msgspec.convert(message, Tune)


def parse_from_tuning(message: dict[str, Any]) -> FromTuning:
    """Raises msgspec.ValidationError."""
    parsed: FromTuning = msgspec.convert(message, FromTuning)
    return parsed


def as_frame(message: Tune | FromTuning) -> dict[str, Any]:
    """A message as the channel sends it."""
    frame: dict[str, Any] = msgspec.to_builtins(message)
    return frame
