"""What can an operator type after `shoal`?"""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from shoal_wire.errors import WireError

from shoal_fleet.command import (
    audit,
    device,
    keys,
    login,
    profile,
    project,
    release,
    rollout,
    secret,
    token,
    tuning,
    user,
)
from shoal_fleet.command.demo import command as demo
from shoal_fleet.command.errors import INTERRUPTED, READER_LEFT, CommandError
from shoal_fleet.command.output import printable

_COMMANDS = (demo, login, keys, device, release, rollout, secret, tuning, profile, audit, user, token, project)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (see `errors`)."""
    arguments = make_parser().parse_args(argv)
    try:
        arguments.run(arguments)
        sys.stdout.flush()
    except CommandError as error:
        return _fail(error, error.exit_code)
    except BrokenPipeError:
        # What is still to be written would fail again when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_LEFT
    except (WireError, OSError) as error:
        return _fail(error, CommandError.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The command line of `shoal`."""
    parser = argparse.ArgumentParser(
        prog="shoal",
        description="Run and update models on a fleet of edge boards.",
        epilog="exit codes:\n  0  done\n  1  refused or failed\n  2  wrong use\n  3  server not reached: try again\n"
        "  4  no such thing\n\nexample:\n  shoal demo --once",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"shoal {version('shoal-fleet')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_parser(commands)
    return parser


def _fail(error: Exception, exit_code: int) -> int:
    lines = map(printable, str(error).split("\n"))  # a mistake in an expression is drawn below its text
    print("\n".join(("shoal: " + next(lines), *lines)), file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
