"""Does a manifest's list of operations become a pipeline, and is a wrong one refused by name?"""

import json
import math
import struct
import sys
from typing import Any

import numpy as np
import pytest
from shoal_agent.front.operations import DESCRIPTIONS, POST
from shoal_agent.front.operations.errors import BadInput, BadOutput, BadPipeline
from shoal_agent.front.operations.pipeline import Pipeline, compare
from shoal_wire.manifest import Operation

DECODE_WAV = Operation("audio.decode_wav", {"sample_rate_hz": 8_000})
WINDOW = Operation("audio.window", {"input": "in", "length": 400, "frame_samples": 80, "overlap_frames": 2})
UNWRAP = Operation("notes.unwrap", {"onset_output": "on", "frame_output": "fr"})
DECODE = Operation(
    "notes.decode", {"onset_threshold": 0.5, "frame_threshold": 0.5, "min_note_ms": 20.0, "lowest_pitch": 60}
)
BOXES = Operation(
    "faces.decode",
    {"box_output": "b", "score_output": "s", "input_pixels": 8, "grids": [[1, 1]], "minimum_score": 0.5},
)
F1 = Operation("notes.f1", {"onset_tolerance_s": 0.05, "minimum_f1": 1.0})


def wav(samples: int) -> bytes:
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8_000, 16_000, 2, 16)
    data = b"\0\0" * samples
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVE" + form + b"data" + struct.pack("<I", len(data)) + data


def changed(operation: Operation, **parameters: object) -> Operation:
    return Operation(operation.name, {**operation.parameters, **parameters})


def without(operation: Operation, name: str) -> Operation:
    return Operation(operation.name, {key: value for key, value in operation.parameters.items() if key != name})


def test_bytes_become_calls_and_outputs_an_answer_in_words() -> None:
    pipeline = Pipeline(pre=[DECODE_WAV, WINDOW], post=[UNWRAP, DECODE])
    prepared = pipeline.prepare(wav(800))
    assert [call["in"].shape for call in prepared.calls] == [(1, 400, 1)] * 4

    onsets, frames = np.zeros((4, 1, 5, 2), np.float32), np.zeros((4, 1, 5, 2), np.float32)
    onsets[1, 0, 1, 1] = 1.0
    frames[1, 0, 1:4, 1] = 1.0
    answer = pipeline.finish([{"on": on, "fr": fr} for on, fr in zip(onsets, frames, strict=True)], prepared.context)

    assert answer == {"notes": [{"pitch": 61, "start_s": 0.03, "end_s": 0.06, "velocity": 127}], "length_s": 0.1}
    assert json.loads(json.dumps(answer)) == answer
    assert pipeline.describe(answer) == "C#4"
    assert compare(F1, answer=answer, expected={"notes": [{"pitch": 61, "start_s": 0.05}]}).passed


def test_bad_bytes_and_bad_outputs_are_told_apart() -> None:
    pipeline = Pipeline(pre=[DECODE_WAV, WINDOW], post=[UNWRAP, DECODE])
    with pytest.raises(BadInput):
        pipeline.prepare(b"no sound")
    with pytest.raises(BadOutput):
        pipeline.finish([], pipeline.prepare(wav(800)).context)


@pytest.mark.parametrize(
    ("pre", "post", "said"),
    [
        ([Operation("image.resize"), WINDOW], [UNWRAP, DECODE], "unknown operation 'image.resize'"),
        ([DECODE_WAV, UNWRAP], [UNWRAP, DECODE], "pre-processing: unknown operation 'notes.unwrap'"),
        ([without(DECODE_WAV, "sample_rate_hz"), WINDOW], [UNWRAP, DECODE], "audio.decode_wav: .*sample_rate_hz"),
        ([changed(DECODE_WAV, speed=2), WINDOW], [UNWRAP, DECODE], "audio.decode_wav: .*speed"),
        ([changed(DECODE_WAV, sample_rate_hz="8000"), WINDOW], [UNWRAP, DECODE], r"audio.decode_wav: .*sample_rate_hz"),
        ([changed(DECODE_WAV, sample_rate_hz=True), WINDOW], [UNWRAP, DECODE], r"audio.decode_wav: .*sample_rate_hz"),
        ([DECODE_WAV, changed(WINDOW, overlap_frames=3)], [UNWRAP, DECODE], "audio.window: .*overlap_frames"),
        ([DECODE_WAV, changed(WINDOW, overlap_frames=6)], [UNWRAP, DECODE], "less than the 5 frames of a window"),
        ([DECODE_WAV, WINDOW], [UNWRAP, changed(DECODE, onset_threshold=1.5)], "notes.decode: .*onset_threshold"),
        ([DECODE_WAV, WINDOW], [UNWRAP, changed(DECODE, min_note_ms=math.nan)], "notes.decode: .*min_note_ms"),
        ([WINDOW], [UNWRAP, DECODE], "audio.window takes Sound, but gets bytes"),
        ([DECODE_WAV], [UNWRAP, DECODE], "pre-processing: ends with Sound, expected Prepared"),
        ([DECODE_WAV, WINDOW], [UNWRAP], "post-processing: ends with Posteriors, expected dict"),
        ([DECODE_WAV, WINDOW], [DECODE], "notes.decode takes Posteriors, but gets Outputs"),
        ([], [UNWRAP, DECODE], "pre-processing: ends with bytes"),
        ([DECODE_WAV, WINDOW], [BOXES], r"faces.decode takes Outputs\[Placement\], but gets Outputs\[Windowing\]"),
        ([DECODE_WAV, WINDOW], [], "post-processing: ends with Outputs"),
    ],
)
def test_refuses_a_pipeline_that_cannot_run(pre: list[Operation], post: list[Operation], said: str) -> None:
    with pytest.raises(BadPipeline, match=said):
        Pipeline(pre=pre, post=post)


@pytest.mark.parametrize(
    ("comparison", "said"),
    [
        (Operation("notes.count"), "comparison: unknown operation 'notes.count'"),
        (changed(F1, minimum_f1=-1.0), "notes.f1: .*minimum_f1"),
        (changed(F1, offset_tolerance_s=0.1), "notes.f1: .*offset_tolerance_s"),
    ],
)
def test_refuses_an_unknown_comparison(comparison: Operation, said: str) -> None:
    answer: dict[str, Any] = {"notes": []}
    with pytest.raises(BadPipeline, match=said):
        compare(comparison, answer=answer, expected={"notes": [{"pitch": 60, "start_s": 0.0}]})


def test_a_pipeline_for_pictures_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)  # as if Pillow weren't installed

    with pytest.raises(BadPipeline, match=r"image\.decode needs Pillow.*shoal-agent\[images\]"):
        Pipeline(pre=[Operation("image.decode")], post=[UNWRAP, DECODE])


def test_every_operation_that_gives_an_answer_can_put_it_in_words() -> None:
    assert {name for name, kind in POST.items() if kind.gives is dict} == set(DESCRIPTIONS)
