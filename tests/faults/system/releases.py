"""Which releases do fault tests roll out? Folders made from those of the example, with one short golden case each.

Good ones differ in their weights' bytes, so that a board always has something to fetch: text that ONNX ignores is
appended (concatenated protocol buffers are merged, and the field is `doc_string`).
"""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from shoal_converters.note_events.synthesis import Score, ScoreNote, synthesise_wav

MODEL = "note-events"
GOOD = (11, 12, 13)
SLOW = 21
DAMAGED = 22
UNFIT = 23
"""Comes in a format that no engine of the board takes."""

SHORT = Score(
    voice="organ",
    length_s=1.0,
    notes=(ScoreNote(pitch=60, start_s=0.15, end_s=0.45), ScoreNote(pitch=67, start_s=0.55, end_s=0.85)),
)
"""One window of the network, or eight where the windows overlap as they do in the slow release."""

_NUMBER_BITS = 32
_DOC_STRING = 6 << 3 | 2


class _Kind(NamedTuple):
    base: str
    model_format: str = "onnx"


_KINDS = {
    **dict.fromkeys(GOOD, _Kind("release-2")),
    SLOW: _Kind("release-3"),
    DAMAGED: _Kind("release-4"),
    UNFIT: _Kind("release-2", model_format="tflite"),
}


def build_folders(example: Path, *, out: Path) -> dict[int, Path]:
    """Folder of each version."""
    return {version: _build(example / kind.base, kind, version, out) for version, kind in _KINDS.items()}


def short_sound(number: int = 0) -> bytes:
    """No two are the same: the number stands in the lowest bits of the last samples, which nobody hears."""
    wav = bytearray(synthesise_wav(SHORT))
    for place in range(_NUMBER_BITS):
        low = len(wav) - 2 * (1 + place)  # of a little-endian sample of 16 bits
        wav[low] = wav[low] & 0xFE | number >> place & 1
    return bytes(wav)


def _build(base: Path, kind: _Kind, version: int, out: Path) -> Path:
    folder = out / f"version-{version}"
    shutil.copytree(base, folder)
    draft: dict[str, Any] = json.loads((folder / "release.json").read_bytes())
    (model,) = draft["models"]
    golden = model["golden"][0]
    golden["expected"] = {"notes": [{"pitch": note.pitch, "start_s": note.start_s} for note in SHORT.notes]}
    golden["outputs"] = []  # they were those of the longer sound
    model["golden"] = [golden]
    (variant,) = (one for one in model["variants"] if one["format"] == "onnx")
    (weights_file,) = variant["files"]
    model["variants"] = [{**variant, "format": kind.model_format}]
    draft["version"] = version
    draft["files"] = [file for file in draft["files"] if file["name"] in (weights_file, golden["file"])]
    (folder / golden["file"]).write_bytes(short_sound())
    weights = folder / weights_file
    text = f"version {version}".encode()
    weights.write_bytes(weights.read_bytes() + bytes([_DOC_STRING, len(text)]) + text)
    (folder / "release.json").write_text(json.dumps(draft))
    return folder
