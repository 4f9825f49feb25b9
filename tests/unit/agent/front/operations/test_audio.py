"""Does a sound file become the windows that a model takes, and is every other file refused?"""

import io
import math
import struct
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_agent.front.operations.audio import MAX_WINDOWS, DecodeWav, Window
from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.values import Sound

RATE_HZ = 22_050
DECODE = DecodeWav(sample_rate_hz=RATE_HZ)


def pcm16(samples: list[int], *, rate_hz: int = RATE_HZ, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(2)
        writer.setframerate(rate_hz)
        writer.writeframes(struct.pack(f"<{len(samples)}h", *samples))
    return file.getvalue()


def riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"".join(name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for name, data in chunks)
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body


def form(*, code: int = 1, channels: int = 1, rate_hz: int = RATE_HZ, bits: int = 16) -> bytes:
    step = channels * bits // 8
    return struct.pack("<HHIIHH", code, channels, rate_hz, rate_hz * step, step, bits)


def float32(values: list[float]) -> bytes:
    return riff((b"fmt ", form(code=3, bits=32)), (b"data", struct.pack(f"<{len(values)}f", *values)))


def sine(frequency_hz: float, *, rate_hz: int, length_s: float) -> np.ndarray:
    return 0.5 * np.sin(2 * math.pi * frequency_hz * np.arange(round(rate_hz * length_s)) / rate_hz)


def test_pcm16_is_scaled_to_one() -> None:
    sound = DECODE.apply(pcm16([0, 16_384, -32_768, 32_767]))
    assert sound.samples.dtype == np.float32
    assert sound.samples.tolist() == [0.0, 0.5, -1.0, 32_767 / 32_768]
    assert sound.sample_rate_hz == RATE_HZ


def test_float_samples_are_taken_as_they_are_and_clipped() -> None:
    assert DECODE.apply(float32([0.25, -0.5, 3.0, -3.0])).samples.tolist() == [0.25, -0.5, 1.0, -1.0]


def test_channels_are_averaged() -> None:
    assert DECODE.apply(pcm16([16_384, 0, -16_384, -16_384], channels=2)).samples.tolist() == [0.25, -0.5]


def test_other_chunks_before_the_samples_are_skipped() -> None:
    raw = riff((b"LIST", b"odd"), (b"fmt ", form()), (b"fact", b"1234"), (b"data", struct.pack("<h", 16_384)))
    assert DECODE.apply(raw).samples.tolist() == [0.5]


def test_extensible_format_is_read_by_its_sub_format() -> None:
    extensible = form(code=0xFFFE) + struct.pack("<HHIH14s", 22, 16, 4, 1, b"")
    assert DECODE.apply(riff((b"fmt ", extensible), (b"data", struct.pack("<h", -16_384)))).samples.tolist() == [-0.5]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 44_100, 48_000, 22_051])
def test_a_tone_is_the_same_tone_at_another_sample_rate(rate_hz: int) -> None:
    raw = pcm16([round(32_767 * value) for value in sine(1_000, rate_hz=rate_hz, length_s=0.5)], rate_hz=rate_hz)
    samples = DECODE.apply(raw).samples
    expected = sine(1_000, rate_hz=RATE_HZ, length_s=0.5)
    assert samples.size == expected.size
    inside = slice(1_000, -1_000)
    assert np.abs(samples[inside] - expected[inside]).max() < 0.005


def test_a_tone_above_half_the_new_rate_vanishes() -> None:
    raw = pcm16([round(32_767 * value) for value in sine(15_000, rate_hz=48_000, length_s=0.5)], rate_hz=48_000)
    assert np.abs(DECODE.apply(raw).samples[1_000:-1_000]).max() < 0.005


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "expected RIFF"),
        (b"ID3 not a wav file", "expected RIFF"),
        (riff((b"fmt ", form())), "no chunk b'data'"),
        (riff((b"data", b"\0\0")), "fmt"),
        (riff((b"fmt ", form()), (b"data", b"")), "0 bytes of samples"),
        (riff((b"fmt ", form()), (b"data", b"\0\0\0")), "multiple of 2"),
        (riff((b"fmt ", form(bits=24)), (b"data", b"\0\0\0")), "24 bits"),
        (riff((b"fmt ", form(code=6, bits=8)), (b"data", b"\0\0")), "format 6"),
        (riff((b"fmt ", form(channels=0)), (b"data", b"\0\0")), "0 channels"),
        (riff((b"fmt ", form(channels=9)), (b"data", b"\0" * 18)), "9 channels"),
        (riff((b"fmt ", form(rate_hz=0)), (b"data", b"\0\0")), "0 Hz"),
        (riff((b"fmt ", form(rate_hz=1_000_000)), (b"data", b"\0\0")), "1000000 Hz"),
        (pcm16([0] * 100)[:-1], "cut short"),
        (float32([0.0, math.nan]), "not a number"),
        (float32([math.inf]), "infinite"),
    ],
)
def test_refuses_what_it_cannot_read(raw: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        DECODE.apply(raw)


def test_refuses_a_sound_that_is_too_long() -> None:
    with pytest.raises(BadInput, match=r"2\.0 s long, expected at most 1\.5 s"):
        DecodeWav(sample_rate_hz=RATE_HZ, max_s=1.5).apply(pcm16([0] * 2 * RATE_HZ))


@given(st.data())
def test_changed_bytes_give_a_sound_or_a_refusal(data: st.DataObject) -> None:
    raw = bytearray(pcm16([1, 2, 3, 4, 5, 6]))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        sound = DECODE.apply(bytes(raw[: data.draw(st.integers(0, len(raw)))]))
    except BadInput:
        return
    assert sound.samples.size > 0
    assert np.abs(sound.samples).max() <= 1.0


def test_windows_begin_half_an_overlap_early_and_end_in_silence() -> None:
    sound = Sound(samples=np.arange(1, 9, dtype=np.float32), sample_rate_hz=8)
    prepared = Window(input="in", length=6, frame_samples=1, overlap_frames=2).apply(sound)
    assert [call["in"].reshape(-1).tolist() for call in prepared.calls] == [[0, 1, 2, 3, 4, 5], [4, 5, 6, 7, 8, 0]]
    assert {call["in"].shape for call in prepared.calls} == {(1, 6, 1)}
    assert {call["in"].dtype for call in prepared.calls} == {np.dtype(np.float32)}


def test_a_sound_shorter_than_a_window_takes_one() -> None:
    sound = Sound(samples=np.ones(1, dtype=np.float32), sample_rate_hz=RATE_HZ)
    prepared = Window(input="in", length=43_844, frame_samples=256, overlap_frames=30).apply(sound)
    assert len(prepared.calls) == 1
    assert prepared.calls[0]["in"].sum() == 1.0


def test_refuses_a_sound_that_takes_too_many_windows() -> None:
    sound = Sound(samples=np.zeros(2 * MAX_WINDOWS + 1, dtype=np.float32), sample_rate_hz=RATE_HZ)
    with pytest.raises(BadInput, match=f"{MAX_WINDOWS + 1} windows"):
        Window(input="in", length=4, frame_samples=1, overlap_frames=2).apply(sound)
