"""What does a person type to see what a model file is: `shoal-convert inspect`."""

import argparse
from pathlib import Path
from typing import Any

from shoal_converters.command_line import json_option, say
from shoal_converters.inspection.boards import load_profiles
from shoal_converters.inspection.inspecting import inspect
from shoal_converters.inspection.words import describe

PROFILES = "device_profiles"
EXAMPLE = """\
Says what a model file is: inputs, outputs, operators, versions, parameters and precision; which of the engines that
are installed here load it and answer zeros (each in a process of its own); and which boards should run it, or why not.
Files of other frameworks are read without them. A pickle is never opened.

example:
  shoal-convert inspect model.onnx
  shoal-convert inspect releases/face-1 --no-run --json"""


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `inspect FILE` to a parser's commands."""
    parser = commands.add_parser(
        "inspect",
        parents=[json_option()],
        help="say what a model file is, and what runs it",
        description=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a model's file or folder, or a release folder")
    parser.add_argument("--no-run", action="store_true", help="don't try the engines that are installed here")
    parser.add_argument(
        "--profiles",
        type=Path,
        metavar="FOLDER",
        help=f"device profiles of the boards to judge (default: {PROFILES} in this folder or one above)",
    )
    parser.set_defaults(command=_inspect)


def find_profiles(start: Path) -> Path | None:
    """The folder `device_profiles` in a folder or in one above it; None where there is none."""
    folders = [folder / PROFILES for folder in (start, *start.parents)]
    return next((folder for folder in folders if folder.is_dir()), None)


def _inspect(chosen: argparse.Namespace) -> None:
    folder = chosen.profiles or find_profiles(Path.cwd())
    profiles = load_profiles(folder) if folder is not None else ()
    inspection = inspect(chosen.file, profiles=profiles, runs_engines=not chosen.no_run)
    say(inspection, words=describe(inspection), as_json=chosen.json)
