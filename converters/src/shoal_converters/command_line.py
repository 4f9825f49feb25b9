"""What do the examples' commands have in common: how they end, what they print, which numbers they take?"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from shoal_converters.errors import ConverterError
from shoal_converters.wheels import default_cache


def run(parser: argparse.ArgumentParser, arguments: list[str] | None) -> int:
    """Run the command that the arguments choose and give its exit code: 1 with the reason on stderr where it can't."""
    chosen = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = chosen.command
    try:
        command(chosen)
    except ConverterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def say(document: object, *, words: str, as_json: bool) -> None:
    """Print one line: the document, or words for people."""
    print(msgspec.json.encode(document, enc_hook=str).decode() if as_json else words, flush=True)


def json_option() -> argparse.ArgumentParser:
    """A parent with `--json`."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument("--json", action="store_true", help="one JSON object a line")
    return parent


def cache_option() -> argparse.ArgumentParser:
    """A parent with `--cache`."""
    parent = argparse.ArgumentParser(add_help=False)
    parent.add_argument(
        "--cache", type=Path, default=default_cache(), help="folder of fetched files (default: %(default)s)"
    )
    return parent


def add_placing_options(parser: argparse.ArgumentParser, *, what: str) -> None:
    """`--out`, `--count`, `--seed` and `--pace` of a command that places files."""
    parser.add_argument("--out", type=Path, required=True, help="folder that gets the files")
    parser.add_argument("--count", type=_whole, default=1, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=_whole, default=0, help="seed of the first (default: %(default)s)")
    parser.add_argument(
        "--pace", type=_seconds, default=0.0, metavar="SECONDS", help=f"time between {what} (default: %(default)s)"
    )


def _whole(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number}, expected 0 or more")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 3600:
        raise argparse.ArgumentTypeError(f"{number}, expected 0 to 3600")
    return number
