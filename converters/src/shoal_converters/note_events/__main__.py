"""What does a person type to get the note events example?

Exit codes: 0 done, 1 it couldn't be done (the reason is on stderr), 2 wrong arguments.
"""

import argparse
import hashlib
import sys
from pathlib import Path

from shoal_agent.front.operations.notes import name_pitch

from shoal_converters.command_line import add_placing_options, cache_option, json_option, run, say
from shoal_converters.note_events.fetch import NOTE_EVENTS, NOTE_EVENTS_TFLITE, fetch_network
from shoal_converters.note_events.releases import BuiltRelease, build_releases
from shoal_converters.note_events.sounds import place_sounds
from shoal_converters.wheels import fetch_files


def main(arguments: list[str] | None = None) -> int:
    """Run one command and give its exit code."""
    return run(_parser(), arguments)


def _fetch(chosen: argparse.Namespace) -> None:
    onnx, tflite = fetch_files([NOTE_EVENTS, NOTE_EVENTS_TFLITE], cache=chosen.cache)
    say({"model": str(onnx), "tflite": str(tflite)}, words=f"{onnx}\n{tflite}", as_json=chosen.json)


def _build(chosen: argparse.Namespace) -> None:
    def report(built: BuiltRelease) -> None:
        golden = "pass" if built.golden_passed else "fail, as they should,"
        say(
            built,
            words=(
                f"{built.folder}: F1 {built.mean_f1:.3f} on average, {built.lowest_f1:.3f} at the lowest of "
                f"{built.samples} held-out sounds; golden cases {golden} in {built.golden_runs} runs by engines"
            ),
            as_json=chosen.json,
        )

    build_releases(fetch_network(chosen.cache), out=chosen.out, on_built=report)


def _place(chosen: argparse.Namespace) -> None:
    for path, sound in place_sounds(chosen.out, count=chosen.count, seed=chosen.seed, pace_s=chosen.pace):
        played = " ".join(name_pitch(note.pitch) for note in sound.score.notes)
        digest = hashlib.sha256(sound.wav).hexdigest()
        document = {"file": path.name, "sha256": digest, "seed": sound.seed, "words": played, "score": sound.score}
        say(document, words=f"{path.name}: {played}", as_json=chosen.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shoal_converters.note_events", description="The note events example: model, releases, sounds."
    )
    common, cache = json_option(), cache_option()
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    fetch = commands.add_parser("fetch", parents=[common, cache], help="download the network into the cache")
    fetch.set_defaults(command=_fetch)

    build = commands.add_parser("build", parents=[common, cache], help="measure and write the four release folders")
    build.add_argument("--out", type=Path, required=True, help="folder that gets release-1 to release-4")
    build.set_defaults(command=_build)

    sounds = commands.add_parser("sounds", parents=[common], help="place sounds with known scores in a folder")
    add_placing_options(sounds, what="sounds")
    sounds.set_defaults(command=_place)
    return parser


if __name__ == "__main__":
    sys.exit(main())
