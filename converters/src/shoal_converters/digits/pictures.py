"""Which pictures of handwritten digits are there, what is each for, and how do they come into a folder?

scikit-learn brings 1,797 of them, 8 x 8 pixels with levels from 0 to 16: E. Alpaydin and C. Kaynak, "Optical
Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from shoal_converters.datasets.arrays import encode_png
from shoal_converters.placing import Pace

LABELS = tuple("0123456789")
DARKEST = 16
"""Level of full ink in scikit-learn's pictures."""
HELD_OUT = 600
CALIBRATION = 200
SEED = 0


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """Some pictures and the digits on them."""

    pixels: NDArray[np.uint8]
    """[n, 8, 8]."""
    digits: NDArray[np.int64]
    """[n], 0 to 9."""


@dataclass(frozen=True, kw_only=True)
class Sets:
    """All pictures, each in one set; in each set the digits have the shares that they have in all."""

    training: Pictures
    calibration: Pictures
    held_out: Pictures
    """Judges the network and its variants, and is what boards are shown: nothing was fitted to it."""


def load_sets() -> Sets:
    """The same sets every time."""
    loaded = load_digits()
    pixels = np.round(loaded.images * (255 / DARKEST)).astype(np.uint8)
    known, held_out = _split(Pictures(pixels=pixels, digits=loaded.target), count=HELD_OUT)
    training, calibration = _split(known, count=CALIBRATION)
    return Sets(training=training, calibration=calibration, held_out=held_out)


def place_digits(out: Path, *, count: int, seed: int, pace_s: float) -> Iterator[tuple[Path, bytes, str]]:
    """Place `count` PNG files of held-out pictures, and give each with its bytes and its digit once it is there.

    File number n, from `seed` on, shows the same picture every time; within HELD_OUT files none comes twice.

    Raises:
        BuildFailed: the folder can't be written.
    """
    held_out = load_sets().held_out
    order = np.random.default_rng(SEED).permutation(len(held_out.digits))
    pace = Pace(out, pace_s=pace_s)
    for number in range(seed, seed + count):
        place = order[number % len(order)]
        content = encode_png(held_out.pixels[place])
        yield pace.place(f"digit-{number:06d}.png", content), content, LABELS[held_out.digits[place]]


def _split(pictures: Pictures, *, count: int) -> tuple[Pictures, Pictures]:
    """The others, and `count` of them."""
    places = np.arange(len(pictures.digits))
    others, drawn = train_test_split(places, test_size=count, random_state=SEED, stratify=pictures.digits)
    return _take(pictures, others), _take(pictures, drawn)


def _take(pictures: Pictures, places: NDArray[np.int64]) -> Pictures:
    return Pictures(pixels=pictures.pixels[places], digits=pictures.digits[places])
