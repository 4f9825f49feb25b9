"""Which pictures have a known answer? Photographs in which the face was marked by eye, and cuts of them.

Where a face is in a cut follows by arithmetic, so no answer comes from a network.
"""

import io
from dataclasses import dataclass

from PIL import Image

from shoal_converters.face_detection.fetch import Material

JPEG_QUALITY = 90
_ORIENTATION = 0x0112
_TURN_RIGHT = 6
"""EXIF: to be turned by 90 degrees clockwise before it is shown, as a phone says that was held upright."""


@dataclass(frozen=True, kw_only=True)
class Area:
    """A rectangle in pixels; right and bottom are the first beyond it."""

    left: float
    top: float
    right: float
    bottom: float


ASTRONAUTS_FACE = Area(left=180, top=78, right=270, bottom=178)
"""Marked by eye in the enlarged picture, from hairline to chin and from cheek to cheek, before a network saw it."""


@dataclass(frozen=True, kw_only=True)
class KnownPicture:
    """A picture file and the face in it, in fractions of its width and height, if there is one."""

    content: bytes
    face: Area | None

    @property
    def expected(self) -> dict[str, list[dict[str, dict[str, float]]]]:
        """The expected answer of a golden case."""
        if self.face is None:
            return {"faces": []}
        face = self.face
        return {"faces": [{"box": {"left": face.left, "top": face.top, "right": face.right, "bottom": face.bottom}}]}

    @property
    def words(self) -> str:
        """What there is to be found, in words."""
        return "no face" if self.face is None else "1 face"


@dataclass(frozen=True, kw_only=True)
class Cut:
    """A part of a photograph, scaled to a width in pixels, perhaps mirrored, perhaps stored on its side."""

    area: Area
    width: int
    is_mirrored: bool = False
    is_on_its_side: bool = False


def load_astronaut(material: Material) -> KnownPicture:
    """The whole photograph."""
    image = Image.open(io.BytesIO(material.astronaut))
    whole = Area(left=0, top=0, right=image.width, bottom=image.height)
    return KnownPicture(content=material.astronaut, face=_locate(ASTRONAUTS_FACE, cut=Cut(area=whole, width=1)))


def cut_picture(photograph: bytes, cut: Cut, *, face: Area | None) -> KnownPicture:
    """Make a JPEG of a part of a photograph. `face`, in pixels of the photograph, must lie within."""
    box = (cut.area.left, cut.area.top, cut.area.right, cut.area.bottom)
    height = round(cut.width * (cut.area.bottom - cut.area.top) / (cut.area.right - cut.area.left))
    with Image.open(io.BytesIO(photograph)) as opened:
        part = opened.convert("RGB").resize((cut.width, height), Image.Resampling.BICUBIC, box=box)
    exif = Image.Exif()
    if cut.is_mirrored:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if cut.is_on_its_side:
        part = part.transpose(Image.Transpose.ROTATE_90)
        exif[_ORIENTATION] = _TURN_RIGHT
    file = io.BytesIO()
    part.save(file, "JPEG", quality=JPEG_QUALITY, exif=exif)
    return KnownPicture(content=file.getvalue(), face=None if face is None else _locate(face, cut=cut))


def _locate(face: Area, *, cut: Cut) -> Area:
    """Where a face is in a cut: from pixels of the photograph to fractions of the cut."""
    width, height = cut.area.right - cut.area.left, cut.area.bottom - cut.area.top
    left, right = (face.left - cut.area.left) / width, (face.right - cut.area.left) / width
    if cut.is_mirrored:
        left, right = 1 - right, 1 - left
    return Area(
        left=round(left, 4),
        top=round((face.top - cut.area.top) / height, 4),
        right=round(right, 4),
        bottom=round((face.bottom - cut.area.top) / height, 4),
    )
