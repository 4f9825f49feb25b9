"""What does a person type to get the note events example?

Exit codes: 0 done, 1 it couldn't be done (the reason is on stderr), 2 wrong arguments.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from shoal_agent.front.operations.notes import name_pitch

from shoal_converters.errors import ConverterError
from shoal_converters.note_events.fetch import default_cache, fetch_model
from shoal_converters.note_events.releases import BuiltRelease, build_releases
from shoal_converters.note_events.sounds import place_sounds


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    chosen = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], None] = chosen.command
    try:
        command(chosen)
    except ConverterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _fetch(chosen: argparse.Namespace) -> None:
    path = fetch_model(chosen.cache)
    _say({"model": str(path)}, words=str(path), as_json=chosen.json)


def _build(chosen: argparse.Namespace) -> None:
    def report(built: BuiltRelease) -> None:
        golden = "pass" if built.golden_passed else "fail, as they should"
        _say(
            built,
            words=(
                f"{built.folder}: F1 {built.mean_f1:.3f} on average, {built.lowest_f1:.3f} at the lowest of "
                f"{built.samples} held-out sounds; golden cases {golden}"
            ),
            as_json=chosen.json,
        )

    build_releases(fetch_model(chosen.cache).read_bytes(), out=chosen.out, on_built=report)


def _place(chosen: argparse.Namespace) -> None:
    for path, sound in place_sounds(chosen.out, count=chosen.count, seed=chosen.seed, pace_s=chosen.pace):
        played = " ".join(name_pitch(note.pitch) for note in sound.score.notes)
        digest = hashlib.sha256(sound.wav).hexdigest()
        document = {"file": path.name, "sha256": digest, "seed": sound.seed, "words": played, "score": sound.score}
        _say(document, words=f"{path.name}: {played}", as_json=chosen.json)


def _say(document: object, *, words: str, as_json: bool) -> None:
    print(msgspec.json.encode(document, enc_hook=str).decode() if as_json else words, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shoal_converters.note_events", description="The note events example: model, releases, sounds."
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="one JSON object a line")
    cache = argparse.ArgumentParser(add_help=False)
    cache.add_argument(
        "--cache", type=Path, default=default_cache(), help="folder of fetched models (default: %(default)s)"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    fetch = commands.add_parser("fetch", parents=[common, cache], help="download the network into the cache")
    fetch.set_defaults(command=_fetch)

    build = commands.add_parser("build", parents=[common, cache], help="measure and write the four release folders")
    build.add_argument("--out", type=Path, required=True, help="folder that gets release-1 to release-4")
    build.set_defaults(command=_build)

    sounds = commands.add_parser("sounds", parents=[common], help="place sounds with known scores in a folder")
    sounds.add_argument("--out", type=Path, required=True, help="folder that gets the WAV files")
    sounds.add_argument("--count", type=_whole, default=1, help="how many (default: %(default)s)")
    sounds.add_argument("--seed", type=_whole, default=0, help="seed of the first (default: %(default)s)")
    sounds.add_argument(
        "--pace", type=_seconds, default=0.0, metavar="SECONDS", help="time between sounds (default: %(default)s)"
    )
    sounds.set_defaults(command=_place)
    return parser


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


if __name__ == "__main__":
    sys.exit(main())
