"""What can an operator type after `shoal`?"""

import argparse
import sys
from collections.abc import Sequence

from shoal_fleet.command import device, keys, login, release, rollout
from shoal_fleet.command.demo import command as demo
from shoal_fleet.command.errors import CommandError

_COMMANDS = (demo, login, keys, device, release, rollout)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (see `errors`)."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except CommandError as error:
        print(f"shoal: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shoal",
        description="Run and update models on a fleet of edge boards.",
        epilog="exit codes: 0 done · 1 refused or failed · 2 wrong use · 3 server not reached · 4 no such thing\n"
        "example: shoal demo --once",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        module.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
