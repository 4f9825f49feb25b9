"""What does a person type to get the digits example?

Exit codes: 0 done, 1 it couldn't be done (the reason is on stderr), 2 wrong arguments, 130 interrupted or ended by
SIGTERM: no release is half-written.
"""

import argparse
import hashlib
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import NoReturn

from shoal_converters.building.job import Tell
from shoal_converters.command_line import add_placing_options, json_option, run, say
from shoal_converters.digits.network import FILTERS
from shoal_converters.digits.pictures import place_digits
from shoal_converters.digits.release import BuiltRelease, build_releases
from shoal_converters.report.verdict import tell_verdict

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    signal.signal(signal.SIGTERM, _end_in_order)
    try:
        return run(_parser(), arguments)
    except KeyboardInterrupt:
        return INTERRUPTED


def _build(chosen: argparse.Namespace) -> None:
    def report(built: BuiltRelease) -> None:
        found = built.report
        document = {
            "folder": str(built.folder),
            "version": found.version,
            "variants": [one.name for one in found.variants if one.is_released],
            "manifest_sha256": found.manifest_sha256,
        }
        say(document, words=f"{built.folder}: {tell_verdict(found)}", as_json=chosen.json)

    build_releases(chosen.out.resolve(), tell=_tell_from_now(), on_built=report, filters=chosen.filters)


def _place(chosen: argparse.Namespace) -> None:
    for path, content, digit in place_digits(chosen.out, count=chosen.count, seed=chosen.seed, pace_s=chosen.pace):
        document = {"file": path.name, "sha256": hashlib.sha256(content).hexdigest(), "words": digit}
        say(document, words=f"{path.name}: {digit}", as_json=chosen.json)


def _end_in_order(_number: int, _frame: FrameType | None) -> NoReturn:
    """SIGTERM ends a build as Ctrl-C does: its processes and its files go with it."""
    raise KeyboardInterrupt


def _whole_numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if min(numbers) < 1:
        raise ValueError(text)
    return numbers


def _tell_from_now() -> Tell:
    began = time.monotonic()

    def tell(line: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {line}", file=sys.stderr, flush=True)

    return tell


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shoal_converters.digits",
        description="The digits example: a network, its releases in fp32 and in INT8, pictures.",
    )
    common = json_option()
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", parents=[common], help="train the network and make both releases")
    build.add_argument(
        "--out", type=Path, required=True, help="folder that gets release-1, release-2 and what they were made of"
    )
    build.add_argument(
        "--filters",
        type=_whole_numbers,
        default=FILTERS,
        metavar="N,N",
        help="of each of the network's layers; fewer are faster and read worse (default: %(default)s)",
    )
    build.set_defaults(command=_build)

    digits = commands.add_parser("digits", parents=[common], help="place pictures of digits in a folder")
    add_placing_options(digits, what="pictures")
    digits.set_defaults(command=_place)
    return parser


if __name__ == "__main__":
    sys.exit(main())
