"""What does an ML engineer type? `shoal-convert`: new, build, inspect, diff, import.

Exit codes: 0 done, 1 it can't be done (the reason is on stderr), 2 wrong arguments, 130 interrupted (Ctrl-C, SIGTERM):
nothing of what was begun is left.
"""

import argparse
import signal
import sys

from shoal_converters.building import command as building
from shoal_converters.command_line import run
from shoal_converters.comparing import command as comparing
from shoal_converters.importing import command as importing
from shoal_converters.inspection import command as inspection

INTERRUPTED = 130
DESCRIPTION = """\
Turns a trained model into a release: converted for every engine, quantized as far as its accuracy holds, measured,
with golden cases and a report.

example:
  shoal-convert inspect defects.onnx
  shoal-convert new defects.onnx --task classification --labels good,scratch,dent
  shoal-convert build recipe.toml --out release-1"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(_parser(), arguments)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever presses it twice
        print("interrupted: nothing half-written is left", file=sys.stderr)
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shoal-convert", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    building.add_parsers(commands)
    inspection.add_parser(commands)
    comparing.add_parser(commands)
    importing.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
