"""How do all commands look alike on the command line: help with an example, and `--json`?"""

import argparse
import math
from collections.abc import Callable


def add_group(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, *, summary: str, example: str
) -> "argparse._SubParsersAction[argparse.ArgumentParser]":
    """Add a word that others follow, as in `shoal device list`; returns what they are added to."""
    group = _add(commands, name, summary=summary, description=f"{summary[0].upper()}{summary[1:]}.", example=example)
    return group.add_subparsers(dest="action", required=True, metavar="ACTION")


def add_command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    *,
    summary: str,
    description: str,
    example: str,
    run: Callable[[argparse.Namespace], None],
) -> argparse.ArgumentParser:
    """Add a command that `run` carries out; it has `--json`."""
    parser = _add(commands, name, summary=summary, description=description, example=example)
    parser.add_argument("--json", action="store_true", help="print the result as JSON, one object a line")
    parser.set_defaults(run=run)
    return parser


def seconds(text: str) -> float:
    """A time that an option names.

    Raises:
        ArgumentTypeError: not a number, or none that one can wait for.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0, found {text!r}")
    return value


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    *,
    summary: str,
    description: str,
    example: str,
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=description,
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
