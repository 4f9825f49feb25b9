"""How do photographs with and without faces come into a folder, one by one, as a camera would put them there?"""

import io
import random
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from shoal_converters.face_detection.fetch import Material
from shoal_converters.face_detection.pictures import ASTRONAUTS_FACE, Area, Cut, KnownPicture, cut_picture
from shoal_converters.placing import Pace

NARROWEST, WIDEST = 320, 640
"""Width of a photograph in pixels."""
_MOST_LOST = 0.08
"""Of a photograph, on each side. Within that the face is whole, and the network's answers are right: nearer, it takes a
patch of the suit for a second face, and it sees a face in many a cut of the coffee cup, which is left out for that."""


def place_photographs(
    material: Material, *, out: Path, count: int, seed: int, pace_s: float
) -> Iterator[tuple[Path, int, KnownPicture]]:
    """Place `count` JPEG files, of the seeds from `seed` on, and give each with its seed once it is there.

    Raises:
        BuildFailed: the folder can't be written.
    """
    pace = Pace(out, pace_s=pace_s)
    for number in range(seed, seed + count):
        photograph = take_photograph(material, seed=number)
        yield pace.place(f"photograph-{number:06d}.jpg", photograph.content), number, photograph


def take_photograph(material: Material, *, seed: int) -> KnownPicture:
    """The photograph of a seed: with a face where the seed is even, no two the same."""
    draw = random.Random(seed).random  # noqa: S311 (a choice of pictures, not a secret)
    width = round(NARROWEST + (WIDEST - NARROWEST) * draw())
    is_mirrored = draw() < 0.5
    if seed % 2 == 0:
        source, face = material.astronaut, ASTRONAUTS_FACE
    else:
        source, face = (material.grass, material.rocket)[int(2 * draw())], None
    with Image.open(io.BytesIO(source)) as image:
        whole_width, whole_height = image.size
    lost = [_MOST_LOST * draw() for _ in range(4)]
    area = Area(
        left=whole_width * lost[0],
        top=whole_height * lost[1],
        right=whole_width * (1 - lost[2]),
        bottom=whole_height * (1 - lost[3]),
    )
    return cut_picture(source, Cut(area=area, width=width, is_mirrored=is_mirrored), face=face)
