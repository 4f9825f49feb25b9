"""How does an item look, for people who read the report?

A picture is shown small, a sound as its spectrogram, a table as a plot of its columns; a text speaks for itself.
"""

import base64
import io
import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from shoal_agent.front.operations.audio import DecodeWav
from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.images import DecodeImage

from shoal_converters.datasets.items import Item

SIDE = 224
"""Pixels that the longer side of a picture has at most."""
LEAST_SIDE = 96
"""A tiny picture is enlarged to about that, without smoothing: its pixels are what the model saw."""
SPECTROGRAM = (288, 144)
"""Width and height in pixels."""
LETTERS = 14
SAMPLE_RATE_HZ = 16_000
WINDOW = 512
"""Samples of a window of the spectrogram: 32 ms."""
RANGE_DB = 80.0
"""Whatever is that far below the loudest is as dark as silence."""
LONGEST_S = 600.0
DARK_TO_BRIGHT = ((0, 0, 4), (66, 10, 104), (147, 38, 103), (221, 81, 58), (252, 165, 10), (252, 255, 164))
"""Colours of growing lightness, so that it can be read in grey and by the colour-blind."""
LINES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart by the colour-blind too (Okabe and Ito, "Color Universal Design")."""
PLOT = (288, 144)
MOST_POINTS = 512
"""Of a line in a plot; of more, every so many are drawn."""

Spectrum = NDArray[np.float64]
Pixels = NDArray[np.uint8]


def draw_item(item: Item) -> str:
    """A data URL of a PNG or SVG; empty for what has no picture, as text, or can't be read."""
    draw = DRAWN.get(_kind(item.raw, suffix=item.suffix))
    if draw is None:
        return ""
    try:
        return draw(item.raw)
    except BadInput:
        return ""


def make_spectrogram(samples: NDArray[np.float32], *, window: int = WINDOW) -> Spectrum:
    """Level in dB below the loudest: float64[window // 2 + 1, frames], frequencies from 0 to half the sample rate.

    Windows overlap by half and are weighted by Hann's function. Between -RANGE_DB and 0; all -RANGE_DB for silence.
    """
    padded = np.pad(samples.astype(np.float64), (0, max(0, window - len(samples))))
    windows = np.lib.stride_tricks.sliding_window_view(padded, window)[:: window // 2]
    power = np.abs(np.fft.rfft(windows * np.hanning(window), axis=1)) ** 2
    loudest = power.max()
    if loudest <= 0:
        return np.full(power.T.shape, -RANGE_DB)
    floor = 10 ** (-RANGE_DB / 10)
    levels: Spectrum = 10 * np.log10(np.maximum(power.T / loudest, floor))
    return levels


def read_columns(text: str) -> dict[str, list[float]]:
    """The columns of a CSV text that hold numbers only, by their headings or counted from 1. Empty where none does."""
    rows = [line.split(",") for line in text.splitlines() if line.strip()]
    if not rows:
        return {}
    headings = [f"column {place}" for place in range(1, len(rows[0]) + 1)]
    if not any(_is_number(cell) for cell in rows[0]):
        headings, rows = [cell.strip() for cell in rows[0]], rows[1:]
    columns = {
        heading: [row[place] for row in rows if place < len(row)] for place, heading in enumerate(headings) if rows
    }
    return {name: [float(cell) for cell in cells] for name, cells in columns.items() if all(map(_is_number, cells))}


def _kind(raw: bytes, *, suffix: str) -> str:
    if raw[:8] == b"\x89PNG\r\n\x1a\n" or raw[:3] == b"\xff\xd8\xff":
        return "picture"
    if raw[:4] == b"RIFF" and raw[8:12] == b"WAVE":
        return "sound"
    return "table" if suffix.lower() == ".csv" else "other"


def _draw_picture(raw: bytes) -> str:
    image = Image.fromarray(DecodeImage().apply(raw).pixels)
    longest = max(image.size)
    if longest > SIDE:
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    elif longest < LEAST_SIDE:
        times = math.ceil(LEAST_SIDE / longest)
        image = image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    return _png(image)


def _draw_sound(raw: bytes) -> str:
    sound = DecodeWav(sample_rate_hz=SAMPLE_RATE_HZ, max_s=LONGEST_S).apply(raw)
    levels = make_spectrogram(sound.samples)
    image = Image.fromarray(_colour(levels[::-1])).resize(SPECTROGRAM, Image.Resampling.BILINEAR)
    width, height = image.size
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(LETTERS)
    length = f"{len(sound.samples) / SAMPLE_RATE_HZ:.2f} s"
    for place, words, anchor in (
        ((5, 4), f"{SAMPLE_RATE_HZ // 2000} kHz", "lt"),
        ((5, height - 4), "0 Hz", "lb"),
        ((width - 5, height - 4), length, "rb"),
    ):
        draw.text(place, words, fill="white", font=font, anchor=anchor, stroke_width=1, stroke_fill="black")
    return _png(image)


def _draw_table(raw: bytes) -> str:
    columns = read_columns(raw.decode("utf-8", errors="replace"))
    lines = [values for values in columns.values() if values]
    if not lines:
        return ""
    if max(map(len, lines)) == 1:
        lines = [[line[0] for line in lines]]  # one row: its values side by side
    width, height = PLOT
    finite = [value for line in lines for value in line if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    drawn = "".join(
        f'<polyline points="{_points(line, low=low, high=high)}" fill="none" stroke="{LINES[place % len(LINES)]}" '
        'stroke-width="1.5"/>'
        for place, line in enumerate(lines)
    )
    labels = (
        f'<text x="4" y="12">{high:.4g}</text><text x="4" y="{height - 4}">{low:.4g}</text>'
        if high > low
        else f'<text x="4" y="12">{low:.4g}</text>'
    )
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="10" fill="#555"><rect width="{width}" height="{height}" fill="#fff"/>'
        f"{drawn}{labels}</svg>"
    )
    return _data_url(svg.encode(), kind="image/svg+xml")


DRAWN: Mapping[str, Callable[[bytes], str]] = {
    "picture": _draw_picture,
    "sound": _draw_sound,
    "table": _draw_table,
}


def _points(line: list[float], *, low: float, high: float) -> str:
    """Of a polyline that fills the plot, its margin left free; values that aren't finite are left out."""
    width, height = PLOT
    margin = 18
    step = max(1, len(line) // MOST_POINTS)
    across, up = (width - 8) / max(1, len(line) - 1), (height - 2 * margin) / ((high - low) or 1.0)
    return " ".join(
        f"{4 + place * across:.1f},{height - margin - (value - low) * up:.1f}"
        for place, value in list(enumerate(line))[::step]
        if math.isfinite(value)
    )


def _colour(levels: Spectrum) -> Pixels:
    """uint8[height, width, 3] of levels between -RANGE_DB and 0 dB."""
    places = (levels + RANGE_DB) / RANGE_DB * (len(DARK_TO_BRIGHT) - 1)
    colours = np.array(DARK_TO_BRIGHT, np.float64)
    channels = [np.interp(places, np.arange(len(colours)), colours[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).round().astype(np.uint8)


def _png(image: Image.Image) -> str:
    file = io.BytesIO()
    image.save(file, format="PNG", optimize=True)
    return _data_url(file.getvalue(), kind="image/png")


def _data_url(raw: bytes, *, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(raw).decode()}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
