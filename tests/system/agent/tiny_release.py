"""What is the smallest release that can be tuned? A network that hears a note where its sound has a peak.

One sample of the sound is one frame, and there is one pitch: the network's outputs are its input, which is why they
can be recorded without it.
"""

import io
import struct
from pathlib import Path

import numpy as np
from shoal_wire.encoding import encode
from shoal_wire.manifest import (
    DraftFile,
    GoldenCase,
    Model,
    Operation,
    ReferenceOutputs,
    ReleaseDraft,
    Tensor,
    Variant,
)

from tests.onnx_bytes import unary_model

MODEL = "note-events"
RIGHT = "right"
WRONG = "wrong"
RATE_HZ = 4000
SAMPLES = 400
SHAPE = (1, SAMPLES, 1)
OUTPUTS = ("onsets", "frames")
_PEAK = 120
_PITCH = 60
_ROLES = {".onnx": "model", ".wav": "golden", ".npz": "outputs"}


def build_tiny_release(out: Path, *, calls: int = 1) -> Path:
    """Write a release folder with a variant that answers right and, after it, one that hears nothing.

    Where the sound of its golden case takes several `calls`, the network takes several at once.
    """
    out.mkdir()
    shape = SHAPE if calls == 1 else ("calls", *SHAPE[1:])
    contents = {
        "right.onnx": unary_model("Relu", shape=shape, outputs=OUTPUTS),
        "wrong.onnx": unary_model("Neg", shape=shape, outputs=OUTPUTS),
        "case.wav": _sound(calls * SAMPLES),
        "case.npz": _recorded(),
    }
    for name, content in contents.items():
        (out / name).write_bytes(content)
    draft = ReleaseDraft(
        name=MODEL,
        version=1,
        created_at="2026-01-01",
        licence="Apache-2.0",
        provenance="made by a test",
        models=(_model(first=1 if calls == 1 else -1),),
        files=tuple(DraftFile(name=name, role=_ROLES[Path(name).suffix], path=name) for name in contents),
    )
    (out / "release.json").write_bytes(encode(draft))
    return out


def _model(*, first: int) -> Model:
    window: dict[str, object] = {"input": "x", "length": SAMPLES, "frame_samples": 1, "overlap_frames": 0}
    decode: dict[str, object] = {
        "onset_threshold": 0.5,
        "frame_threshold": 0.3,
        "min_note_ms": 1.0,
        "lowest_pitch": _PITCH,
    }
    return Model(
        name=MODEL,
        task="notes",
        inputs=(Tensor("x", "float32", (first, *SHAPE[1:])),),
        outputs=tuple(Tensor(name, "float32", (first, *SHAPE[1:])) for name in OUTPUTS),
        pre=(Operation("audio.decode_wav", {"sample_rate_hz": RATE_HZ}), Operation("audio.window", window)),
        post=(
            Operation("notes.unwrap", {"onset_output": "onsets", "frame_output": "frames"}),
            Operation("notes.decode", decode),
        ),
        variants=(Variant(RIGHT, "onnx", "fp32", ("right.onnx",)), Variant(WRONG, "onnx", "fp32", ("wrong.onnx",))),
        golden=(
            GoldenCase(
                name="peak",
                file="case.wav",
                expected={"notes": [{"pitch": _PITCH, "start_s": _PEAK / RATE_HZ}]},
                comparison=Operation("notes.f1", {"onset_tolerance_s": 0.01, "minimum_f1": 0.9}),
                source="where the sound was given its peak",
                outputs=(ReferenceOutputs((RIGHT,), "case.npz", 0.001, "the sound itself"),),
            ),
        ),
    )


def _sound(samples: int) -> bytes:
    """Silence with one triangle, 16-bit mono."""
    data = struct.pack(f"<{samples}h", *_heights(), *[0] * (samples - SAMPLES))
    header = struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16, b"data", len(data))
    return b"RIFF" + struct.pack("<I", 4 + len(header) + len(data)) + b"WAVE" + header + data


def _heights() -> list[int]:
    return [max(0, 30_000 - 500 * abs(at - _PEAK)) for at in range(SAMPLES)]


def _recorded() -> bytes:
    sound = np.reshape(np.array(_heights(), np.float32) / 32768, SHAPE)
    file = io.BytesIO()
    np.savez(file, **{f"0/{name}": sound for name in OUTPUTS})  # type: ignore[arg-type]
    return file.getvalue()
