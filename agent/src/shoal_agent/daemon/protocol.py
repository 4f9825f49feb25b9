"""How is what a child says checked as it comes? A message that breaks its protocol ends the program that sent it."""

from typing import Any

import msgspec

from shoal_agent import front_messages, tuning_messages, updater_messages

MAX_REASON = 500
"""Characters of what msgspec says, which repeats what was sent."""


class ProtocolBroken(Exception):
    """A child said something that isn't in its protocol."""


def parse_updater_message(message: dict[str, Any]) -> updater_messages.FromUpdater:
    """Raises ProtocolBroken."""
    try:
        return updater_messages.parse_from_updater(message)
    except msgspec.ValidationError as error:
        raise _broken("updater", message, error) from None


def parse_front_message(message: dict[str, Any]) -> front_messages.FromFront:
    """Raises ProtocolBroken."""
    try:
        return front_messages.parse_from_front(message)
    except msgspec.ValidationError as error:
        raise _broken("front", message, error) from None


def parse_tuning_message(message: dict[str, Any]) -> tuning_messages.FromTuning:
    """Raises ProtocolBroken."""
    try:
        return tuning_messages.parse_from_tuning(message)
    except msgspec.ValidationError as error:
        raise _broken("tuning", message, error) from None


def _broken(who: str, message: dict[str, Any], error: msgspec.ValidationError) -> ProtocolBroken:
    return ProtocolBroken(f"{who}: a message of type {str(message.get('type'))[:40]!r}: {str(error)[:MAX_REASON]}")
