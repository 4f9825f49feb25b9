"""Does a manifest's list of operations become a pipeline, and is a wrong one refused by name?"""

import io
import json
import math
import struct
import subprocess
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


SCORES = Operation("scores.read", {"output": "out", "activation": "softmax"})
TOP = Operation("classes.top", {"labels": ["low", "high"]})


def test_scores_are_read_of_outputs_of_any_context() -> None:
    pipeline = Pipeline(pre=[DECODE_WAV, WINDOW], post=[SCORES, TOP])
    prepared = pipeline.prepare(wav(800))
    answer = pipeline.finish([{"out": np.log(np.array([[1, 3]], np.float32))}] * 4, prepared.context)
    assert answer == {"classes": [{"label": "high", "score": 0.75}, {"label": "low", "score": 0.25}]}


def test_only_outputs_come_in_any_context() -> None:
    with pytest.raises(BadPipeline, match=r"classes\.top takes Scores, but gets Outputs"):
        Pipeline(pre=[DECODE_WAV, WINDOW], post=[TOP])
    with pytest.raises(BadPipeline, match=r"scores\.read takes Outputs, but gets Posteriors"):
        Pipeline(pre=[DECODE_WAV, WINDOW], post=[UNWRAP, SCORES, TOP])


def test_no_operation_loads_pillow_before_a_picture_comes() -> None:
    code = "import sys, shoal_agent.front.operations.pipeline; sys.exit('PIL' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


FIT = Operation("image.fit", {"width": 4, "height": 4, "how": "stretch", "method": "nearest"})
FEED = Operation("image.feed", {"input": "in", "colours": "rgb", "layout": "nchw", "dtype": "uint8"})
PROPOSED = Operation(
    "boxes.decode",
    {
        "form": {"kind": "yolo", "output": "out", "layout": "value_rows"},
        "input_size": [4, 4],
        "labels": ["red", "blue"],
    },
)
MERGED = Operation("boxes.merge", {"minimum_score": 0.5, "maximum_iou": 0.5})
MASK = Operation(
    "mask.read", {"output": "out", "layout": "nchw", "chosen_by": "highest", "labels": ["red", "green", "blue"]}
)


def png() -> bytes:
    """Two rows of two pixels: red and green, blue and red."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is an extra: shoal-agent[images]")
    pixels = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [255, 0, 0]]], np.uint8)
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_a_picture_becomes_a_mask() -> None:
    """The model is one that gives its input back: its channels are how red, green and blue each pixel is."""
    pytest.importorskip("PIL", reason="Pillow is an extra: shoal-agent[images]")
    pipeline = Pipeline(pre=[Operation("image.decode"), FIT, FEED], post=[MASK])
    prepared = pipeline.prepare(png())
    answer = pipeline.finish([{"out": call["in"].astype(np.float32)} for call in prepared.calls], prepared.context)
    assert answer["mask"]["runs"] == [[0, 2], [1, 2], [0, 2], [1, 2], [2, 2], [0, 2], [2, 2], [0, 2]]
    assert pipeline.describe(answer) == "red 50 %, green 25 %, blue 25 %"
    assert compare(Operation("mask.iou", {"minimum_iou": 1.0}), answer=answer, expected=answer).passed


def test_a_picture_becomes_objects() -> None:
    pytest.importorskip("PIL", reason="Pillow is an extra: shoal-agent[images]")
    pipeline = Pipeline(pre=[Operation("image.decode"), FIT, FEED], post=[PROPOSED, MERGED])
    proposed = np.array([[[1.0], [3.0], [2.0], [2.0], [0.1], [0.9]]], np.float32)
    answer = pipeline.finish([{"out": proposed}], pipeline.prepare(png()).context)
    box = {"left": 0.0, "top": 0.5, "right": 0.5, "bottom": 1.0}
    assert answer == {"objects": [{"label": "blue", "score": 0.9, "box": box}]}
    assert compare(Operation("objects.iou", {"minimum_iou": 1.0}), answer=answer, expected=answer).passed


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"kind": "anchors"}, "Invalid value 'anchors'.*form.kind"),
        ({"output": "out"}, "missing required field `kind`"),
        ({"kind": "yolo", "output": "out", "layout": "rows"}, "form.layout"),
        ({"kind": "yolo", "output": "out", "layout": "box_rows", "order": "xyxy"}, "unknown field `order`"),
        ({"kind": "corners", "box_output": "b", "score_output": "s", "order": "xyxy"}, "activation"),
    ],
)
def test_each_form_of_boxes_has_its_own_parameters(form: dict[str, object], said: str) -> None:
    pytest.importorskip("PIL", reason="Pillow is an extra: shoal-agent[images]")
    with pytest.raises(BadPipeline, match=said):
        Pipeline(pre=[Operation("image.decode"), FIT, FEED], post=[changed(PROPOSED, form=form), MERGED])


def test_every_operation_that_gives_an_answer_can_put_it_in_words() -> None:
    assert {name for name, kind in POST.items() if kind.gives is dict} == set(DESCRIPTIONS)
