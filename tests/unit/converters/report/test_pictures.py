"""How do items look in the report?"""

import base64
import io
import struct

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from shoal_converters.datasets.items import Item
from shoal_converters.report.pictures import SAMPLE_RATE_HZ, SIDE, WINDOW, draw_item, make_spectrogram, read_columns


def tone(hz: float, *, seconds: float = 1.0, rate_hz: int = SAMPLE_RATE_HZ) -> NDArray[np.float32]:
    times = np.arange(int(seconds * rate_hz)) / rate_hz
    return (0.5 * np.sin(2 * np.pi * hz * times)).astype(np.float32)


def wav(samples: NDArray[np.float32], *, rate_hz: int) -> bytes:
    data = (samples * 32767).astype("<i2").tobytes()
    head = struct.pack(
        "<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate_hz, 2 * rate_hz, 2, 16
    )
    return head + struct.pack("<4sI", b"data", len(data)) + data


def picture(width: int, height: int, *, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(1).integers(0, 255, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(file, format=kind)
    return file.getvalue()


def drawn(raw: bytes, *, suffix: str = "") -> Image.Image:
    url = draw_item(Item(name="item", raw=raw, suffix=suffix))
    kind, _, text = url.partition(";base64,")
    assert kind == "data:image/png"
    return Image.open(io.BytesIO(base64.b64decode(text)))


@pytest.mark.parametrize("hz", [500.0, 1000.0, 3000.0, 7000.0])
def test_a_tone_is_loudest_at_its_frequency_all_along(hz: float) -> None:
    levels = make_spectrogram(tone(hz))
    assert levels.shape == (WINDOW // 2 + 1, 1 + (SAMPLE_RATE_HZ - WINDOW) // (WINDOW // 2))
    found = levels.argmax(axis=0) * SAMPLE_RATE_HZ / WINDOW
    assert np.abs(found - hz).max() <= SAMPLE_RATE_HZ / WINDOW
    assert levels.max() == 0
    far = np.abs(np.arange(WINDOW // 2 + 1) * SAMPLE_RATE_HZ / WINDOW - hz) > 500
    assert levels[far].max() < -40


def test_silence_and_sounds_shorter_than_a_window_have_a_spectrogram() -> None:
    assert (make_spectrogram(np.zeros(1000, np.float32)) == -80).all()
    assert make_spectrogram(tone(1000, seconds=0.01)).shape == (WINDOW // 2 + 1, 1)


def test_a_sound_is_drawn_with_low_frequencies_below_whatever_its_sample_rate() -> None:
    pixels = np.asarray(drawn(wav(tone(6000, rate_hz=44_100), rate_hz=44_100)).convert("L"), float)
    rows = pixels[:, 60:200].mean(axis=1)
    assert abs(rows.argmax() / len(rows) - (1 - 6000 / 8000)) < 0.05


@pytest.mark.parametrize(("width", "height"), [(640, 480), (480, 640), (2000, 10)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_is_shown_small_in_its_proportions(width: int, height: int, kind: str) -> None:
    small = drawn(picture(width, height, kind=kind))
    assert max(small.size) == SIDE
    assert small.width / small.height == pytest.approx(width / height, rel=0.12)


def test_a_tiny_picture_is_enlarged_by_whole_pixels() -> None:
    large = drawn(picture(8, 8))
    assert large.size == (96, 96)
    assert np.ptp(np.asarray(large)[:12, :12].reshape(-1, 3), axis=0).max() == 0


def test_a_table_is_drawn_as_lines() -> None:
    raw = b"time,temperature\n0,20.5\n1,21\n2,19\n"
    url = draw_item(Item(name="t", raw=raw, suffix=".csv"))
    kind, _, text = url.partition(";base64,")
    assert kind == "data:image/svg+xml"
    svg = base64.b64decode(text).decode()
    assert svg.count("<polyline") == 2
    assert ">21<" in svg


def test_columns_that_are_not_numbers_are_left_out() -> None:
    assert read_columns("a,b\n1,x\n2,y\n") == {"a": [1.0, 2.0]}
    assert read_columns("1,2\n3,4\n") == {"column 1": [1.0, 3.0], "column 2": [2.0, 4.0]}
    assert read_columns("") == {}


@pytest.mark.parametrize(
    ("raw", "suffix"),
    [
        (b"words", ".txt"),
        (b"", ""),
        (b"\x89PNG\r\n\x1a\nbroken", ".png"),
        (b"RIFF\0\0\0\0WAVEbroken", ".wav"),
        (b"x,y\n", ".csv"),
        (b"nan,nan\n", ".csv"),
    ],
)
def test_what_has_no_picture_or_is_broken_has_none(raw: bytes, suffix: str) -> None:
    assert draw_item(Item(name="item", raw=raw, suffix=suffix)) == ""
