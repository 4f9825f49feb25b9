"""Is a face in a cut where arithmetic says, and does it say so of the pixels too?"""

import io

import numpy as np
import pytest
from PIL import Image
from shoal_agent.front.operations.images import DecodeImage
from shoal_converters.face_detection.evaluation import area_under_curve
from shoal_converters.face_detection.fetch import Material
from shoal_converters.face_detection.photographs import take_photograph
from shoal_converters.face_detection.pictures import ASTRONAUTS_FACE, Area, Cut, cut_picture, load_astronaut

FACE = Area(left=40, top=20, right=80, bottom=60)


def photograph(*, width: int = 200, height: int = 100, face: Area | None = FACE) -> bytes:
    """Black, with the face in white."""
    image = Image.new("RGB", (width, height))
    if face is not None:
        image.paste("white", (int(face.left), int(face.top), int(face.right), int(face.bottom)))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


MATERIAL = Material(
    network=b"",
    astronaut=photograph(width=512, height=512, face=ASTRONAUTS_FACE),
    coffee=b"",
    rocket=photograph(width=640, height=427, face=None),
    grass=photograph(width=512, height=512, face=None),
    labelled_crops=b"",
)


def white_part(raw: bytes) -> list[float]:
    """Left, top, right and bottom of what is white, as the agent reads the file."""
    white = DecodeImage().apply(raw).pixels[:, :, 0] > 127
    columns, rows = np.flatnonzero(white.any(axis=0)), np.flatnonzero(white.any(axis=1))
    height, width = white.shape
    return [columns[0] / width, rows[0] / height, (columns[-1] + 1) / width, (rows[-1] + 1) / height]


@pytest.mark.parametrize("is_mirrored", [False, True])
@pytest.mark.parametrize("is_on_its_side", [False, True])
@pytest.mark.parametrize("width", [160, 320])
def test_the_box_of_a_cut_is_where_its_pixels_are(is_mirrored: bool, is_on_its_side: bool, width: int) -> None:
    cut = Cut(
        area=Area(left=20, top=10, right=180, bottom=90),
        width=width,
        is_mirrored=is_mirrored,
        is_on_its_side=is_on_its_side,
    )
    picture = cut_picture(photograph(), cut, face=FACE)
    left, right = (0.625, 0.875) if is_mirrored else (0.125, 0.375)
    assert picture.expected == {"faces": [{"box": {"left": left, "top": 0.125, "right": right, "bottom": 0.625}}]}
    np.testing.assert_allclose(white_part(picture.content), [left, 0.125, right, 0.625], atol=0.02)


def test_the_whole_photograph_has_its_face_where_it_was_marked() -> None:
    (face,) = load_astronaut(MATERIAL).expected["faces"]
    assert face["box"] == {"left": 0.3516, "top": 0.1523, "right": 0.5273, "bottom": 0.3477}


@pytest.mark.parametrize("seed", range(6))
def test_even_seeds_have_a_face_and_odd_ones_none(seed: int) -> None:
    taken = take_photograph(MATERIAL, seed=seed)
    assert taken.words == ("1 face" if seed % 2 == 0 else "no face")
    if taken.face is not None:
        face = taken.face
        expected = [face.left, face.top, face.right, face.bottom]
        np.testing.assert_allclose(white_part(taken.content), expected, atol=0.01)


def test_the_same_seed_gives_the_same_photograph_and_another_seed_another() -> None:
    first, again, other = (take_photograph(MATERIAL, seed=seed).content for seed in (2, 2, 4))
    assert first == again
    assert first != other


def test_area_under_the_curve_counts_pairs() -> None:
    """Of the six pairs, four are right, one is equal: (4 + 1/2) / 6."""
    assert area_under_curve(np.array([0.9, 0.8, 0.3]), np.array([0.8, 0.1])) == pytest.approx(4.5 / 6)
    assert area_under_curve(np.array([1.0]), np.array([0.0])) == 1.0
