"""How do the bytes of a file become the pixels of a picture?

PNG and JPEG only: every further format is more code that strangers' bytes reach.
"""

import io
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.values import Picture

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]

FORMATS = ("PNG", "JPEG")
MAX_PIXELS = 12_500_000
"""Unless a manifest says otherwise: cameras of 12 megapixels send up to 4,056 x 3,040."""
MAX_PICTURE_SIDE = 16_384
"""Whatever a manifest says: files are decoded by rows, and no buffer for one should be as large as a picture."""
MAX_BYTES = 32 << 20
ORIENTATION = 0x0112
STRIP_PIXELS = 1 << 18
"""That are turned into red, green and blue at a time."""
TURNS: Mapping[int, Callable[[Pixels], Pixels]] = {
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.transpose(1, 0, 2),
    6: lambda stored: stored[::-1].transpose(1, 0, 2),
    7: lambda stored: stored[::-1, ::-1].transpose(1, 0, 2),
    8: lambda stored: stored[:, ::-1].transpose(1, 0, 2),
}
"""From the stored picture to the upright one, by EXIF orientation (EXIF 2.32, tag 274)."""


class DecodeImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`image.decode`: a PNG or JPEG file as red, green and blue, turned as its EXIF orientation says.

    Of several pictures in one file (APNG, MPO) the first is taken. What is transparent shows the colour below, values
    of 16 bits lose their lower half.

    Takes 7 bytes a pixel at its peak, whatever the file: 88 MB where it has `MAX_PIXELS`, and 125 MB for a progressive
    JPEG, which is held as coefficients first. What is given takes 3 bytes a pixel.
    """

    takes: ClassVar[type] = bytes
    gives: ClassVar[type] = Picture

    max_pixels: Annotated[int, Meta(ge=1, le=1 << 28)] = MAX_PIXELS
    max_bytes: Annotated[int, Meta(ge=1, le=1 << 30)] = MAX_BYTES

    def __post_init__(self) -> None:
        check_pillow("image.decode")

    def apply(self, raw: bytes) -> Picture:
        """Read a whole file.

        Raises:
            BadInput: neither PNG nor JPEG, cut short, damaged, or larger than allowed; the size is looked at before
                the pixels are.
        """
        if len(raw) > self.max_bytes:
            raise BadInput(f"image: {len(raw)} bytes, expected at most {self.max_bytes}")
        try:
            stored, orientation = self._read(raw)
        except BadInput:
            raise
        except Exception as error:  # whatever its readers meet in broken files: OSError, SyntaxError, struct.error, …
            said = f"{type(error).__name__}: {error}"[:200]
            raise BadInput(f"image: {raw[:8]!r}… can't be read as {' or '.join(FORMATS)} ({said})") from None
        turn = TURNS.get(orientation)
        pixels = stored if turn is None else np.ascontiguousarray(turn(stored))
        pixels.flags.writeable = False
        return Picture(pixels=pixels)

    def _read(self, raw: bytes) -> tuple[Pixels, int]:
        """The picture as it is stored, and its orientation."""
        from PIL import Image, UnidentifiedImageError

        try:
            opened = Image.open(io.BytesIO(raw), formats=FORMATS)
        except UnidentifiedImageError:
            said = "another kind of file, or broken where it begins"
            raise BadInput(f"image: {raw[:8]!r}… can't be read as {' or '.join(FORMATS)} ({said})") from None
        with opened as image:
            width, height = image.size
            if width * height > self.max_pixels:
                raise BadInput(f"image: {width} x {height} pixels, expected at most {self.max_pixels} in all")
            if max(width, height) > MAX_PICTURE_SIDE:
                raise BadInput(f"image: {width} x {height} pixels, expected at most {MAX_PICTURE_SIDE} on a side")
            image.load()
            return _read_colours(image), image.getexif().get(ORIENTATION, 1)


def check_pillow(operation: str) -> None:
    """Refuse an operation where Pillow isn't installed: ValueError, which names the extra to install."""
    if find_spec("PIL") is None:
        raise ValueError(f"{operation} needs Pillow, which is not installed: pip install 'shoal-agent[images]'")


def _read_colours(image: "Image") -> Pixels:
    """All of a picture, strip by strip, so that there is never a second copy of the whole in Pillow's form."""
    width, height = image.size
    rows = max(1, STRIP_PIXELS // width)
    pixels = np.empty((height, width, 3), dtype=np.uint8)
    for top in range(0, height, rows):
        bottom = min(top + rows, height)
        strip = image.crop((0, top, width, bottom))
        if strip.mode.startswith("I"):
            pixels[top:bottom] = np.clip(np.asarray(strip) >> 8, 0, 255)[:, :, np.newaxis]
        else:
            pixels[top:bottom] = np.asarray(strip.convert("RGB"))
    return pixels
