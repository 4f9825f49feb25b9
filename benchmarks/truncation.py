"""What becomes of models that were cut off before they were signed, and of the front that loads them?

A whole front with the note events release; the file of a variant with the weights is cut at random lengths, sealed, and
loaded, each time in one engine alone. The undamaged release must load in the same front afterwards.

Run by hand: `python -m benchmarks.truncation [--cuts 200] [--json]`
"""

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from shoal_agent import front_messages as messages
from shoal_converters.note_events.fetch import fetch_network
from shoal_converters.note_events.releases import build_releases
from shoal_converters.wheels import default_cache

from tests.system.agent import engine_board
from tests.system.agent.front_board import Board

SEED = 20_251_130
CASES = (
    ("onnxruntime", "onnx-fp32", "nmp.onnx"),
    ("litert", "tflite-fp32", "nmp.tflite"),
    ("tflite-runtime", "tflite-fp32", "nmp.tflite"),
    ("openvino", "openvino-fp32", "nmp.bin"),
)
"""Engine, variant, and the file of it that is cut."""
DEATH = re.compile(r"killed by signal \d+ \([^)]*\)|ended with exit code \d+")


def main() -> None:
    """Cut, load and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=200, help="for each engine (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"cuts": arguments.cuts}
    with tempfile.TemporaryDirectory() as name:
        releases = Path(name) / "releases"
        build_releases(fetch_network(default_cache()), out=releases, on_built=lambda _: None)
        for engine, variant, file in CASES:
            folder = Path(name) / engine
            folder.mkdir()
            result[engine] = cut_and_load(
                folder, releases / "release-2", engine=engine, variant=variant, file=file, cuts=arguments.cuts
            )
            print(f"{engine}: {result[engine]}", file=sys.stderr, flush=True)
    print(json.dumps(result) if arguments.json else json.dumps(result, indent=2))


def cut_and_load(folder: Path, release: Path, *, engine: str, variant: str, file: str, cuts: int) -> dict[str, Any]:
    """Counts of what loads came to, and whether the front lives on and serves the whole model."""
    board = Board(folder)
    board.configuration = msgspec.structs.replace(
        board.configuration, engines=(engine,), interpreters=dict(engine_board.interpreters())
    )
    ends: Counter[str] = Counter()
    try:
        channel, front = board.start_front()
        whole = (release / file).read_bytes()
        for size in np.random.default_rng(SEED).integers(len(whole), size=cuts):
            shutil.copytree(release, folder / "cut")
            (folder / "cut" / file).write_bytes(whole[:size])
            reply = board.load(channel, msgspec.structs.replace(board.hold(folder / "cut"), variant=variant))
            shutil.rmtree(folder / "cut")
            if isinstance(reply, messages.LoadFailed):
                death = DEATH.search(reply.reason)
                ends[f"worker {death[0]}" if death else "refused"] += 1
            else:
                ends["loaded"] += 1
        reply = board.load(channel, msgspec.structs.replace(board.hold(release), variant=variant))
        return {
            "ends": dict(ends),
            "front_lives": front.poll() is None,
            "whole_model_serves": isinstance(reply, messages.Serving),
        }
    finally:
        board.close()


if __name__ == "__main__":
    main()
