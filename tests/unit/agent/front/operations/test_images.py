"""Do files of every kind become the right pixels the right way up, and are hostile ones refused with a reason?"""

import contextlib
import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.images import DecodeImage

pytest.importorskip("PIL", reason="Pillow is an extra: shoal-agent[images]")
from PIL import Image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
CORNERS = np.array([[RED, GREEN, GREEN], [BLUE, WHITE, WHITE]], dtype=np.uint8)
"""Two rows, three columns: every turn and every mirror image of it is another picture."""

DECODE = DecodeImage()


def file_of(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_of(pixels: NDArray[np.uint8]) -> bytes:
    return file_of(Image.fromarray(pixels))


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_by_hand(width: int, height: int, *, data: bytes, bits: int = 8, colours: int = 2, more: bytes = b"") -> bytes:
    """A PNG file with these compressed samples, whatever its header says."""
    header = struct.pack(">IIBBBBB", width, height, bits, colours, 0, 0, 0)
    end = chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more + end


def colours_of(raw: bytes) -> list[list[int]]:
    pixels = DECODE.apply(raw).pixels
    assert pixels.dtype.name == "uint8"
    rows: list[list[int]] = pixels.reshape(-1, 3).tolist()
    return rows


def test_a_png_keeps_its_pixels() -> None:
    assert DECODE.apply(png_of(CORNERS)).pixels.tolist() == CORNERS.tolist()


def test_a_jpeg_is_read() -> None:
    picture = DECODE.apply(file_of(Image.new("RGB", (40, 20), (200, 100, 50)), "JPEG", quality=95))
    assert picture.pixels.shape == (20, 40, 3)
    assert np.abs(picture.pixels.astype(int) - (200, 100, 50)).max() <= 3


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (Image.new("L", (1, 1), 77), (77, 77, 77)),
        (Image.new("1", (1, 1), 1), WHITE),
        (Image.new("LA", (1, 1), (77, 0)), (77, 77, 77)),
        (Image.new("RGBA", (1, 1), (1, 2, 3, 0)), (1, 2, 3)),
        (Image.new("I;16", (1, 1), 0x8001), (128, 128, 128)),
        (Image.new("RGB", (1, 1), BLUE).convert("P", palette=Image.Palette.ADAPTIVE), BLUE),
    ],
    ids=lambda value: getattr(value, "mode", None),
)
def test_every_mode_of_png_becomes_colours(image: Image.Image, expected: tuple[int, ...]) -> None:
    assert colours_of(file_of(image)) == [list(expected)]


def test_a_transparent_palette_becomes_colours() -> None:
    image = Image.new("RGB", (1, 1), GREEN).convert("P", palette=Image.Palette.ADAPTIVE)
    assert colours_of(file_of(image, transparency=b"\0")) == [list(GREEN)]


def test_a_cmyk_jpeg_becomes_colours() -> None:
    (found,) = colours_of(file_of(Image.new("CMYK", (1, 1), (0, 255, 255, 0)), "JPEG", quality=95))
    assert found[0] > 200 and max(found[1:]) < 60  # no cyan, all magenta and yellow: red


@pytest.mark.parametrize(
    ("orientation", "shown"),
    [
        (1, CORNERS),
        (2, CORNERS[:, ::-1]),
        (3, CORNERS[::-1, ::-1]),
        (4, CORNERS[::-1]),
        (5, CORNERS.transpose(1, 0, 2)),
        (6, np.rot90(CORNERS, -1)),
        (7, CORNERS[::-1, ::-1].transpose(1, 0, 2)),
        (8, np.rot90(CORNERS, 1)),
        (9, CORNERS),
        (0, CORNERS),
    ],
)
def test_a_picture_is_turned_as_its_orientation_says(orientation: int, shown: NDArray[np.uint8]) -> None:
    """EXIF 2.32, table of tag 274: which edge of the stored picture is the visual top, and which the left."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert DECODE.apply(file_of(Image.fromarray(CORNERS), exif=exif)).pixels.tolist() == shown.tolist()


def test_of_an_animation_the_first_picture_is_taken() -> None:
    first, second = Image.new("RGB", (2, 2), RED), Image.new("RGB", (2, 2), GREEN)
    assert colours_of(file_of(first, save_all=True, append_images=[second])) == [list(RED)] * 4
    assert colours_of(file_of(first, "MPO", save_all=True, append_images=[second]))[0][1] < 60


BOMB = png_by_hand(60_000, 60_000, data=zlib.compress(bytes(1 << 20)))
TEXT_BOMB = chunk(b"zTXt", b"c\0\0" + zlib.compress(bytes(80 << 20), 9))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", r"can't be read as PNG or JPEG"),
        (b"RIFF....WAVE", r"b'RIFF\.\.\.\.'… can't be read"),
        (png_of(CORNERS)[:-30], "can't be read"),
        (file_of(Image.new("RGB", (64, 64)), "JPEG")[:-200], "can't be read"),
        (file_of(Image.new("RGB", (2, 2)), "GIF"), "can't be read"),
        (file_of(Image.new("RGB", (2, 2)), "BMP"), "can't be read"),
        (file_of(Image.new("RGB", (2, 2)), "TIFF"), "can't be read"),
        (png_by_hand(0, 1, data=b""), "can't be read"),
        (png_by_hand(4, 4, data=zlib.compress(b"")), "can't be read"),
        (png_by_hand(4, 4, data=b"no zlib"), "can't be read"),
        (png_by_hand(4_097, 4_096, data=b""), r"4097 x 4096 pixels, expected at most 12500000 in all"),
        (png_by_hand(16_385, 1, data=b""), r"16385 x 1 pixels, expected at most 16384 on a side"),
        (png_by_hand(1, 16_385, data=b""), r"1 x 16385 pixels, expected at most 16384 on a side"),
        (BOMB, "pixels|exceeds"),
        (png_by_hand(1, 1, data=zlib.compress(bytes(4)), more=TEXT_BOMB), "can't be read"),
    ],
)
def test_what_is_no_good_picture_is_refused(raw: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        DECODE.apply(raw)
    assert " at 0x" not in str(refused.value)


def test_limits_are_those_of_the_manifest() -> None:
    raw = png_of(np.zeros((10, 10, 3), np.uint8))
    assert DecodeImage(max_pixels=100, max_bytes=len(raw)).apply(raw).pixels.shape == (10, 10, 3)
    with pytest.raises(BadInput, match="10 x 10 pixels, expected at most 99"):
        DecodeImage(max_pixels=99).apply(raw)
    with pytest.raises(BadInput, match=f"{len(raw)} bytes, expected at most {len(raw) - 1}"):
        DecodeImage(max_bytes=len(raw) - 1).apply(raw)


@pytest.mark.parametrize(("bits", "colours"), [(16, 0), (8, 3), (8, 6)], ids=["grey-16", "palette", "rgba"])
def test_a_small_file_of_a_large_picture_takes_little_memory(bits: int, colours: int) -> None:
    """At most 8 bytes a pixel, by the kernel's count of the most that a process of its own ever held."""
    width, height = 4_000, 3_000
    values = {0: 1, 3: 1, 6: 4}[colours]
    data = zlib.compress(bytes(height * (1 + width * values * bits // 8)), 9)
    raw = png_by_hand(width, height, data=data, bits=bits, colours=colours, more=chunk(b"PLTE", bytes(3)))
    assert len(raw) < 100_000
    command = [sys.executable, "-c", MEASURE]
    grown_bytes = int(subprocess.run(command, input=raw, capture_output=True, check=True).stdout)
    assert grown_bytes < 8 * width * height


MEASURE = """
import io, sys
from PIL import Image
from shoal_agent.front.operations.fitting import Letterbox
from shoal_agent.front.operations.images import DecodeImage
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
def run(raw):
    Letterbox(input="in", width=128, height=128).apply(DecodeImage().apply(raw))
raw, small = sys.stdin.buffer.read(), io.BytesIO()
Image.new("RGB", (8, 8)).save(small, "PNG")
run(small.getvalue())
before = peak()
run(raw)
print(peak() - before)
"""


def test_a_picture_is_the_same_however_many_strips_it_is_read_in() -> None:
    """Several strips, the last one shorter than the others."""
    noise = np.random.default_rng(1).integers(0, 256, (1_001, 701, 3), dtype=np.uint8)
    assert (DECODE.apply(png_of(noise)).pixels == noise).all()


@given(st.binary(max_size=64), st.integers(0, 255))
def test_no_damage_to_a_file_brings_anything_but_a_refusal(tail: bytes, place: int) -> None:
    for good in (png_of(CORNERS), file_of(Image.fromarray(CORNERS), "JPEG")):
        at = place % len(good)
        with contextlib.suppress(BadInput):
            assert DECODE.apply(good[:at] + tail + good[at + len(tail) :]).pixels.shape[2] == 3
