"""Do models that carry a state, or go on from their own last token, answer right on a real engine?"""

from __future__ import annotations

import io
import math
import wave
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnxruntime
import pytest
from shoal_agent.front.batching import run_prepared
from shoal_agent.front.operations.pipeline import Pipeline
from shoal_agent.front.operations.values import Answer, Tensors
from shoal_converters.errors import FetchFailed
from shoal_converters.wheels import WheelFile, default_cache, fetch_file
from shoal_wire.manifest import Operation

from tests import onnx_bytes

RATE_HZ = 16_000
QUIET = 5_000
"""Samples before the voice."""
VOICE_DETECTOR = WheelFile(
    requirement="silero-vad==6.2.3",
    wheel="silero_vad-6.2.3-py3-none-any.whl",
    wheel_sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    member="silero_vad/data/silero_vad.onnx",
    member_sha256="1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
)

Run = Callable[[Tensors], Tensors]


def open_model(raw: bytes) -> Run:
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda call: dict(zip(names, session.run(names, call), strict=True))


def answer_of(pipeline: Pipeline, raw: bytes, *, run: Run) -> tuple[Answer, list[Tensors]]:
    prepared = pipeline.prepare(raw)
    outputs = run_prepared(prepared, batch=1, run=run)
    return pipeline.finish(outputs, prepared.context), outputs


def wav(samples: npt.NDArray[np.float64]) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(RATE_HZ)
        writer.writeframes((samples * 32_767).astype("<i2").tobytes())
    return file.getvalue()


def three_syllables() -> npt.NDArray[np.float64]:
    """One second of a voice that says "a" three times: pulses of 130 Hz through the three formants of that vowel."""
    times = np.arange(RATE_HZ) / RATE_HZ
    pitch_hz = 130 + 15 * np.sin(2 * math.pi * 4 * times)
    voice = np.diff(np.floor(np.cumsum(pitch_hz) / RATE_HZ), prepend=0.0).tolist()
    for formant_hz, width_hz in ((700, 80), (1_220, 90), (2_600, 120)):
        fall = math.exp(-math.pi * width_hz / RATE_HZ)
        turn = 2 * fall * math.cos(2 * math.pi * formant_hz / RATE_HZ)
        before = last = 0.0
        for at, value in enumerate(voice):
            before, last = last, value + turn * last - fall**2 * before
            voice[at] = last
    loudness = np.clip(np.sin(2 * math.pi * 3 * times), 0, 1)
    return np.asarray(0.6 * loudness * np.array(voice) / np.abs(voice).max())


def test_a_model_hears_frame_after_frame_and_keeps_its_state() -> None:
    """A level of 0.5 adds 0.5 x 1,600 to the state in each of five frames: the score passes 0.9 in the third."""
    sound = wav(np.full(8_000, 0.5))
    stream = {
        "input": "x",
        "frame_samples": 1_600,
        "states": [{"input": "state", "output": "state_after", "shape": [1, 1]}],
        "constants": [{"input": "gain", "dtype": "float32", "value": 0.001}],
    }
    pipeline = Pipeline(
        pre=[Operation("audio.decode_wav", {"sample_rate_hz": RATE_HZ}), Operation("audio.stream", stream)],
        post=[
            Operation("frames.read", {"output": "score"}),
            Operation("events.find", {"labels": ["loud"], "thresholds": {"loud": 0.9}}),
        ],
    )
    answer, outputs = answer_of(pipeline, sound, run=open_model(onnx_bytes.listening_model(samples=1_600)))
    expected = [1 / (1 + math.exp(-0.8 * frame)) for frame in (1, 2, 3, 4, 5)]
    assert [float(call["score"][0, 0]) for call in outputs] == pytest.approx(expected, rel=1e-3)
    assert [(event["start_s"], event["end_s"]) for event in answer["events"]] == [(0.2, 0.5)]
    assert pipeline.describe(answer).startswith("loud 0.20-0.50 s")


def test_a_language_model_goes_on_from_its_own_tokens() -> None:
    table = np.zeros((257, 257), np.float32)
    for token, after in zip(b" buoy", b"buoy\0", strict=True):
        table[token, after or 256] = 1.0
    pipeline = Pipeline(
        pre=[
            Operation(
                "text.prompt",
                {"ids": "ids", "output": "logits", "stop": [256], "max_new_tokens": 16, "max_tokens": 64},
            )
        ],
        post=[Operation("text.read")],
    )
    answer, outputs = answer_of(pipeline, b"A red ", run=open_model(onnx_bytes.next_token_model(table)))
    assert answer == {"text": "buoy", "tokens": list(b"buoy")}
    assert [call["logits"].shape[1] for call in outputs] == [6, 7, 8, 9, 10]


def test_a_real_voice_detector_hears_what_its_authors_loop_hears() -> None:
    """Their loop: 512 samples at a time, 64 of those before in front, and the state of the call before."""
    try:
        run = open_model(fetch_file(VOICE_DETECTOR, cache=default_cache()).read_bytes())
    except FetchFailed as error:
        pytest.skip(f"the voice detector can't be had here: {error}")
    raw = wav(np.concatenate([np.zeros(QUIET), three_syllables(), np.zeros(700)]))
    stream = {
        "input": "input",
        "frame_samples": 512,
        "context_samples": 64,
        "states": [{"input": "state", "output": "stateN", "shape": [2, 1, 128]}],
        "constants": [{"input": "sr", "dtype": "int64", "value": RATE_HZ}],
    }
    decode = Operation("audio.decode_wav", {"sample_rate_hz": RATE_HZ})
    find = Operation("events.find", {"labels": ["speech"], "thresholds": {"speech": 0.5}})
    pipeline = Pipeline(
        pre=[decode, Operation("audio.stream", stream)], post=[Operation("frames.read", {"output": "output"}), find]
    )
    answer, outputs = answer_of(pipeline, raw, run=run)

    heard = np.frombuffer(raw[44:], "<i2") / np.float32(32_768)
    padded = np.pad(heard, (64, -heard.size % 512)).astype(np.float32)
    state, expected = np.zeros((2, 1, 128), np.float32), []
    for start in range(0, heard.size, 512):
        said = run({"input": padded[np.newaxis, start : start + 576], "state": state, "sr": np.array(RATE_HZ)})
        state = said["stateN"]
        expected.append(float(said["output"][0, 0]))
    assert [float(call["output"][0, 0]) for call in outputs] == pytest.approx(expected, abs=1e-6)
    assert [event["start_s"] for event in answer["events"]] == pytest.approx(
        [QUIET / RATE_HZ + at / 3 for at in range(3)], abs=0.1
    )
