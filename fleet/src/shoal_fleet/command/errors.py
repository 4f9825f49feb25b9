"""How can a command fail, and with which exit code?

CommandError      1  refused or failed; the message says what to do next
├── UsageError    2  wrong arguments, or something that must be there first is missing
├── Unreachable   3  no answer from the server: the same command may work later
└── NotFound      4  no such device, release or rollout
"""

INTERRUPTED = 130
"""Ended by Ctrl-C (128 + SIGINT)."""
READER_LEFT = 141
"""Nobody reads standard output any more (128 + SIGPIPE)."""


class CommandError(Exception):
    """Refused or failed."""

    exit_code = 1


class UsageError(CommandError):
    """Wrong arguments, or a step that must come first."""

    exit_code = 2


class Unreachable(CommandError):
    """No answer from the server."""

    exit_code = 3


class NotFound(CommandError):
    """The server knows no such thing."""

    exit_code = 4
