"""Is a candidate refused whose answer is right and whose outputs aren't those of its variant?"""

import io
import struct
from typing import Literal

import numpy as np
import pytest
from shoal_agent.front.operations.values import Prepared, Tensors
from shoal_agent.tuning.task import GoldenTask, Run
from shoal_wire.manifest import GoldenCase, Model, Operation, ReferenceOutputs, Tensor, Variant
from shoal_wire.tuning import Candidate

RATE_HZ, SAMPLES, PEAK = 4000, 400, 120
HEIGHTS = [max(0, 30_000 - 500 * abs(at - PEAK)) for at in range(SAMPLES)]
SOUND = np.reshape(np.array(HEIGHTS, np.float32) / 32768, (1, SAMPLES, 1))


def wav() -> bytes:
    data = struct.pack(f"<{SAMPLES}h", *HEIGHTS)
    header = struct.pack("<4sIHHIIHH4sI", b"fmt ", 16, 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16, b"data", len(data))
    return b"RIFF" + struct.pack("<I", 4 + len(header) + len(data)) + b"WAVE" + header + data


def recorded(name: str) -> list[bytes]:
    """The network gives the sound itself, whose note is where its peak is."""
    assert name == "peak.npz"
    file = io.BytesIO()
    np.savez(file, **{"0/onsets": SOUND, "0/frames": SOUND})  # type: ignore[arg-type]
    return [file.getvalue()]


def model() -> Model:
    window = {"input": "x", "length": SAMPLES, "frame_samples": 1, "overlap_frames": 0}
    decode = {"onset_threshold": 0.5, "frame_threshold": 0.3, "min_note_ms": 1.0, "lowest_pitch": 60}
    case = GoldenCase(
        name="peak",
        file="peak.wav",
        expected={"notes": [{"pitch": 60, "start_s": PEAK / RATE_HZ}]},
        comparison=Operation("notes.f1", {"onset_tolerance_s": 0.01, "minimum_f1": 0.9}),
        source="where the sound was given its peak",
        outputs=(ReferenceOutputs(("right",), "peak.npz", 0.01, "the sound itself"),),
    )
    return Model(
        name="m",
        task="notes",
        inputs=(Tensor("x", "float32", SOUND.shape),),
        outputs=tuple(Tensor(name, "float32", SOUND.shape) for name in ("onsets", "frames")),
        pre=(Operation("audio.decode_wav", {"sample_rate_hz": RATE_HZ}), Operation("audio.window", window)),
        post=(
            Operation("notes.unwrap", {"onset_output": "onsets", "frame_output": "frames"}),
            Operation("notes.decode", decode),
        ),
        variants=tuple(Variant(name, "onnx", "fp32", ("f",)) for name in ("right", "unrecorded")),
        golden=(case,),
    )


def network(gain: float) -> Run:
    def run(prepared: Prepared[object]) -> list[Tensors]:
        return [{name: call["x"] * np.float32(gain) for name in ("onsets", "frames")} for call in prepared.calls]

    return run


def way(variant: str, *, precision: Literal["exact", "fast"] = "exact") -> Candidate:
    return Candidate(variant=variant, engine="onnxruntime", precision=precision, threads=1)


@pytest.mark.parametrize(
    ("gain", "variant", "words"),
    [
        (1.0, "right", ""),
        (1.05, "right", "1 of 1 golden cases failed: peak: F1 1.00"),
        (1.05, "unrecorded", ""),
        (-1.0, "right", "1 of 1 golden cases failed: peak: F1 0.00"),
    ],
)
def test_candidate_is_judged_by_the_outputs_of_its_own_variant(gain: float, variant: str, words: str) -> None:
    task = GoldenTask(model(), [wav()], read=recorded)
    found = task.check(network(gain), candidate=way(variant))
    assert found.startswith(words) and bool(found) is bool(words)
    assert ("differs by 0.05, allowed are 0.01" in found) is (gain == 1.05 and variant == "right")


def test_outputs_that_cannot_be_read_refuse_the_candidate() -> None:
    found = GoldenTask(model(), [wav()], read=lambda name: [b"other"]).check(network(1.0), candidate=way("right"))
    assert "peak: reference outputs peak.npz: not a NumPy .npz file" in found


@pytest.mark.parametrize(("gain", "is_right"), [(1.05, True), (1.2, False)])
def test_shorter_types_may_move_outputs_by_a_tenth(gain: float, is_right: bool) -> None:
    task = GoldenTask(model(), [wav()], read=recorded)
    assert (task.check(network(gain), candidate=way("right", precision="fast")) == "") is is_right
