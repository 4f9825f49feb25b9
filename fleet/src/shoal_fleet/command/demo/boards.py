"""Which boards does the demo have, and what sets each of them apart?"""

import json
from pathlib import Path
from typing import NamedTuple


class Feed(NamedTuple):
    """A model, and the items that are placed in a board's folder for it to answer."""

    model: str
    source: str
    """Names the items, their folder and the source in answers."""
    package: str
    """Of the converters: builds the model's releases and places the items."""
    pace_s: float
    """An item so often."""


class Board(NamedTuple):
    """A board that may use one engine only."""

    name: str
    engine: str
    model_format: str
    """The engine's own, which it must run where a release has it."""
    feeds: tuple[Feed, ...]
    """What it answers: everything that its engine reads."""


NOTES = Feed("note-events", source="sounds", package="shoal_converters.note_events", pace_s=1.0)
FACES = Feed("face-detection", source="photographs", package="shoal_converters.face_detection", pace_s=0.5)
"""Its model comes as .tflite only."""
DIGITS = Feed("digits", source="digits", package="shoal_converters.digits", pace_s=0.2)
"""Its model comes as .onnx only."""

BOARDS = (
    Board("board-litert", engine="litert", model_format="tflite", feeds=(NOTES, FACES)),
    Board("board-onnxruntime", engine="onnxruntime", model_format="onnx", feeds=(NOTES, DIGITS)),
    Board("board-openvino", engine="openvino", model_format="openvino", feeds=(NOTES, FACES)),
)


def boards_with(feed: Feed) -> tuple[Board, ...]:
    """The boards that answer such items."""
    return tuple(board for board in BOARDS if feed in board.feeds)


def agent_configuration(board: Board, *, folder: Path) -> str:
    """Text of the board's agent.toml. Each source is a folder of its own name in `folder`.

    The boards share this machine, so each has one thread, and nothing but the updates loads it.
    """
    lines = ["threads = 1", f"engines = [{_text(board.engine)}]"]
    lines += ["", "[telemetry]", "interval_s = 5.0"]
    lines += ["", "[tuning]", "at_install = false", "all_variants = false"]
    for feed in board.feeds:
        values = {"kind": "folder", "name": feed.source, "path": str(folder / feed.source), "release": feed.model}
        lines += ["", "[[sources]]", *(f"{key} = {_text(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A string as TOML writes it; JSON writes it alike, but for DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
