"""What does a person type to get the face detection example?

Exit codes: 0 done, 1 it couldn't be done (the reason is on stderr), 2 wrong arguments.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from shoal_converters.command_line import add_placing_options, cache_option, json_option, run, say
from shoal_converters.face_detection.fetch import FILES, fetch_material
from shoal_converters.face_detection.photographs import place_photographs
from shoal_converters.face_detection.release import build_release
from shoal_converters.wheels import fetch_files


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    return run(_parser(), arguments)


def _fetch(chosen: argparse.Namespace) -> None:
    network, *pictures = fetch_files(FILES, cache=chosen.cache)
    document = {"model": str(network), "pictures": [str(path) for path in pictures]}
    say(document, words="\n".join(map(str, [network, *pictures])), as_json=chosen.json)


def _build(chosen: argparse.Namespace) -> None:
    built = build_release(fetch_material(chosen.cache), out=chosen.out)
    words = (
        f"{built.folder}: area under the curve {built.area_under_curve:.4f}, accuracy {built.accuracy:.3f} on "
        f"{built.samples} crops; golden cases pass in {built.golden_runs} runs by engines"
    )
    say(built, words=words, as_json=chosen.json)


def _place(chosen: argparse.Namespace) -> None:
    placed = place_photographs(
        fetch_material(chosen.cache), out=chosen.out, count=chosen.count, seed=chosen.seed, pace_s=chosen.pace
    )
    for path, seed, photograph in placed:
        digest = hashlib.sha256(photograph.content).hexdigest()
        document = {"file": path.name, "sha256": digest, "seed": seed, "words": photograph.words}
        say({**document, **photograph.expected}, words=f"{path.name}: {photograph.words}", as_json=chosen.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shoal_converters.face_detection",
        description="The face detection example: model, release, photographs.",
    )
    common, cache = json_option(), cache_option()
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    fetch = commands.add_parser("fetch", parents=[common, cache], help="download network and pictures into the cache")
    fetch.set_defaults(command=_fetch)

    build = commands.add_parser("build", parents=[common, cache], help="measure and write the release folder")
    build.add_argument("--out", type=Path, required=True, help="folder that gets face-1")
    build.set_defaults(command=_build)

    photographs = commands.add_parser(
        "photographs", parents=[common, cache], help="place photographs with and without faces in a folder"
    )
    add_placing_options(photographs, what="photographs")
    photographs.set_defaults(command=_place)
    return parser


if __name__ == "__main__":
    sys.exit(main())
