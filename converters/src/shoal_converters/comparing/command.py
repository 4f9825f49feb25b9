"""What does a person type to see how two variants differ: `shoal-convert diff`."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal_converters.command_line import json_option, say
from shoal_converters.comparing.comparison import compare_sides
from shoal_converters.comparing.sides import find_sides, pair_sides
from shoal_converters.comparing.words import describe

MAX_CALLS = 1000
MAX_LENGTH = 1_000_000
EXAMPLE = """\
Runs two variants of a model on the same inputs and says how far their outputs differ: the largest difference, the root
mean square relative to the first one's, the cosine, and how often the largest value is in the same place. Where both
are ONNX or both OpenVINO, layer by layer too, which shows where they part. They may be of different formats: tensors
are matched by name, else by shape and order; channels first and channels last are recognised; quantized inputs and
outputs are compared as the numbers that they stand for. Inputs are --data, else the golden cases where one of the two
is a release, else random: then a quantized model differs by more than it does on the data that it was calibrated for.

example:
  shoal-convert diff model.onnx model-int8.onnx
  shoal-convert diff releases/net-1:onnx-fp32 releases/net-1:tflite-int8 --data inputs.npz --json"""


def add_parser(commands: "argparse._SubParsersAction[Any]") -> None:
    """Add `diff A B` to a parser's commands."""
    parser = commands.add_parser(
        "diff",
        parents=[json_option()],
        help="compare two variants output by output, and layer by layer",
        description=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = "a model's file, a release folder (variants of the same name are compared), or RELEASE:VARIANT"
    parser.add_argument("first", metavar="A", help=f"the reference: {what}")
    parser.add_argument("second", metavar="B", help="the same")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="PATH",
        help="inputs: a NumPy .npz of arrays named like the inputs of A, or a folder of such files (default: golden "
        "cases of a release, else random)",
    )
    parser.add_argument(
        "--count", type=_whole(MAX_CALLS), default=8, help="random inputs to compare on (default: %(default)s)"
    )
    parser.add_argument(
        "--free-length",
        type=_whole(MAX_LENGTH),
        default=64,
        metavar="LENGTH",
        help="of axes of random inputs that may have any length, but for the first (default: %(default)s)",
    )
    parser.add_argument("--no-layers", action="store_true", help="compare outputs only")
    parser.add_argument(
        "--threshold",
        type=_share,
        default=0.05,
        metavar="SHARE",
        help="layers that differ by more (RMS, relative) have parted (default: %(default)s)",
    )
    parser.set_defaults(command=_diff)


def _diff(chosen: argparse.Namespace) -> None:
    for first, second in pair_sides(find_sides(chosen.first), find_sides(chosen.second)):
        comparison = compare_sides(
            first,
            second,
            data=chosen.data,
            count=chosen.count,
            free_length=chosen.free_length,
            compares_layers=not chosen.no_layers,
        )
        say(comparison, words=describe(comparison, threshold=chosen.threshold), as_json=chosen.json)


def _whole(most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not 1 <= number <= most:
            raise argparse.ArgumentTypeError(f"{number}, expected 1 to {most}")
        return number

    return parse


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 10:
        raise argparse.ArgumentTypeError(f"{number}, expected 0 to 10")
    return number
