"""Does a picture lie in the input where its placement says, and do its pixels become the numbers of the formula?"""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from shoal_agent.front.operations.boxes import move_to_picture
from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.fitting import FeedImage, FitImage, Letterbox
from shoal_agent.front.operations.values import FittedPicture, Picture, Placement

pytest.importorskip("PIL", reason="Pillow is an extra: shoal-agent[images]")
from PIL import Image

WHOLE = Placement(left=0.0, top=0.0, width=1.0, height=1.0)
METHODS = ("nearest", "box", "bilinear", "bicubic", "lanczos")
Sides = st.integers(1, 300)


def fit(width: int, height: int, *, how: str, method: str = "bilinear", **options: object) -> FitImage:
    parameters = {"width": width, "height": height, "how": how, "method": method, **options}
    return msgspec.convert(parameters, type=FitImage)


def feed(colours: str = "rgb", layout: str = "nhwc", dtype: str = "float32", **options: object) -> FeedImage:
    parameters = {"input": "in", "colours": colours, "layout": layout, "dtype": dtype, **options}
    return msgspec.convert(parameters, type=FeedImage)


def noise(width: int, height: int) -> Picture:
    return Picture(pixels=np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8))


def plain(width: int, height: int) -> Picture:
    return Picture(pixels=np.full((height, width, 3), 255, np.uint8))


def fed(step: FeedImage, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
    prepared = step.apply(FittedPicture(pixels=pixels, placement=WHOLE))
    (call,) = prepared.calls
    assert list(call) == ["in"]
    assert prepared.context == WHOLE and prepared.context.fed == call
    return call["in"]


@pytest.mark.parametrize("method", METHODS)
def test_a_stretched_picture_is_that_of_the_named_filter(method: str) -> None:
    picture = noise(31, 17)
    fitted = fit(8, 9, how="stretch", method=method).apply(picture)
    filtered = getattr(Image.Resampling, method.upper())
    assert fitted.pixels.tolist() == np.asarray(Image.fromarray(picture.pixels).resize((8, 9), filtered)).tolist()
    assert fitted.placement == WHOLE


@pytest.mark.parametrize(
    ("picture", "rows"),
    [
        (plain(8, 2), [[7] * 8, [255] * 8, [255] * 8, [7] * 8]),
        (plain(8, 3), [[255] * 8, [255] * 8, [255] * 8, [7] * 8]),
        (plain(100, 200), [[7] * 3 + [255] * 2 + [7] * 3] * 4),
    ],
    ids=["wide", "odd", "tall"],
)
def test_a_letterbox_has_its_filling_beside_the_picture(picture: Picture, rows: list[list[int]]) -> None:
    fitted = fit(8, 4, how="letterbox", fill=7).apply(picture)
    assert fitted.pixels[:, :, 0].tolist() == rows


def test_a_letterbox_may_be_filled_with_a_colour() -> None:
    assert fit(1, 3, how="letterbox", fill=[1, 2, 3]).apply(plain(1, 1)).pixels[0, 0].tolist() == [1, 2, 3]


@given(Sides, Sides)
def test_a_picture_of_any_shape_fits_and_keeps_its_proportions(width: int, height: int) -> None:
    fitted = fit(64, 48, how="letterbox").apply(plain(width, height))
    filled, placement = fitted.pixels[:, :, 0] == 255, fitted.placement
    assert filled.any(axis=0).sum() == placement.width * 64
    assert filled.any(axis=1).sum() == placement.height * 48
    assert placement.width == 1 or placement.height == 1
    scale = min(64 / width, 48 / height)
    assert abs(placement.width * 64 - width * scale) < 1 and abs(placement.height * 48 - height * scale) < 1


@given(Sides, Sides)
def test_the_corners_of_a_letterbox_are_those_of_the_picture(width: int, height: int) -> None:
    fitted = fit(64, 48, how="letterbox").apply(plain(width, height))
    rows, columns = np.nonzero(fitted.pixels[:, :, 0] == 255)
    corners = [[columns.min() / 64, rows.min() / 48], [(columns.max() + 1) / 64, (rows.max() + 1) / 48]]
    np.testing.assert_allclose(move_to_picture(np.array(corners), fitted.placement), [[0, 0], [1, 1]], atol=1e-9)


@pytest.mark.parametrize("method", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(640, 427), (427, 640), (300, 300)])
def test_a_crop_is_the_middle_of_the_scaled_picture(method: str, size: tuple[int, int]) -> None:
    """The shorter side scaled to 64, the longer one in proportion, 56 x 56 cut out: rounded, values may differ by 1."""
    picture, filtered = noise(*size), getattr(Image.Resampling, method.upper())
    scaled = (64, 64 * size[1] // size[0]) if size[0] < size[1] else (64 * size[0] // size[1], 64)
    left, top = round((scaled[0] - 56) / 2), round((scaled[1] - 56) / 2)
    whole = Image.fromarray(picture.pixels).resize(scaled, filtered)
    middle = np.asarray(whole.crop((left, top, left + 56, top + 56))).astype(int)
    fitted = fit(56, 56, how="crop", zoom=0.875, method=method).apply(picture)
    differences = np.abs(fitted.pixels - middle)
    assert differences.max() <= 1 and (differences > 0).mean() < 0.01


@pytest.mark.parametrize(
    ("size", "zoom", "placement"),
    [
        ((40, 20), 1.0, Placement(left=-0.5, top=0.0, width=2.0, height=1.0)),
        ((20, 40), 1.0, Placement(left=0.0, top=-0.5, width=1.0, height=2.0)),
        ((20, 20), 0.5, Placement(left=-0.5, top=-0.5, width=2.0, height=2.0)),
        ((40, 20), 0.5, Placement(left=-1.5, top=-0.5, width=4.0, height=2.0)),
    ],
)
def test_a_cropped_picture_reaches_beyond_the_input(size: tuple[int, int], zoom: float, placement: Placement) -> None:
    assert fit(10, 10, how="crop", zoom=zoom).apply(noise(*size)).placement == placement


def test_what_a_crop_shows_is_where_its_placement_says() -> None:
    """One white column of a hundred, in a crop that shows the fifty in the middle, each as two columns of the input."""
    pixels = np.zeros((50, 100, 3), np.uint8)
    pixels[:, 60] = 255
    fitted = fit(100, 100, how="crop", method="box").apply(Picture(pixels=pixels))
    (columns,) = np.nonzero(fitted.pixels[0, :, 0])
    edges = np.array([[columns.min() / 100, 0.0], [(columns.max() + 1) / 100, 1.0]])
    np.testing.assert_allclose(move_to_picture(edges, fitted.placement), [[0.60, 0.0], [0.61, 1.0]])


@given(Sides, Sides, st.integers(1, 40), st.integers(1, 40), st.sampled_from([1.0, 0.875, 0.5, 0.01]))
def test_a_crop_fills_the_input_with_the_picture(width: int, height: int, wide: int, high: int, zoom: float) -> None:
    try:
        fitted = fit(wide, high, how="crop", zoom=zoom).apply(plain(width, height))
    except BadInput as error:
        assert "of which a crop" in str(error)
        scale = max(wide / width, high / height) / zoom
        assert min(wide, high) / scale < 1 / 32
        return
    assert (fitted.pixels == 255).all()
    placement = fitted.placement
    assert placement.left <= 0 and placement.left + placement.width >= 1 - 1e-9
    assert placement.top <= 0 and placement.top + placement.height >= 1 - 1e-9


def test_a_picture_too_narrow_to_crop_is_refused() -> None:
    with pytest.raises(BadInput, match="1 x 16384 pixels, of which a crop to 4096 x 1 shows"):
        fit(4_096, 1, how="crop", zoom=0.01).apply(plain(1, 16_384))


PIXELS = np.array([[[0, 51, 255], [10, 20, 30]]], np.uint8)
"""One row, two columns."""


def test_values_are_scaled_then_moved_then_divided() -> None:
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    values = fed(feed(scale=1 / 255, mean=mean, std=std), PIXELS)
    expected = [[(value / 255 - m) / s for value, m, s in zip(pixel, mean, std, strict=True)] for pixel in PIXELS[0]]
    assert (values.shape, values.dtype.name) == ((1, 1, 2, 3), "float32")
    np.testing.assert_allclose(values[0, 0], expected, rtol=1e-5, atol=1e-6)


def test_one_mean_and_deviation_are_for_all_channels() -> None:
    np.testing.assert_allclose(fed(feed(mean=[127.5], std=[127.5]), PIXELS)[0, 0, 0], [-1, -0.6, 1], atol=1e-6)


def test_means_are_in_the_order_of_the_channels() -> None:
    assert fed(feed("bgr", mean=[255, 51, 0]), PIXELS)[0, 0, 0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("layout", "colours", "shape", "values"),
    [
        ("nhwc", "rgb", (1, 1, 2, 3), [0, 51, 255, 10, 20, 30]),
        ("nhwc", "bgr", (1, 1, 2, 3), [255, 51, 0, 30, 20, 10]),
        ("nchw", "rgb", (1, 3, 1, 2), [0, 10, 51, 20, 255, 30]),
        ("nchw", "bgr", (1, 3, 1, 2), [255, 30, 51, 20, 0, 10]),
        ("flat", "rgb", (1, 6), [0, 51, 255, 10, 20, 30]),
        ("nhwc", "grey", (1, 1, 2, 1), [59, 18]),
        ("nchw", "grey", (1, 1, 1, 2), [59, 18]),
        ("nhw", "grey", (1, 1, 2), [59, 18]),
        ("flat", "grey", (1, 2), [59, 18]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_channels_lie_as_the_layout_says(
    layout: str, colours: str, shape: tuple[int, ...], values: list[int], dtype: str
) -> None:
    """Luma by hand: 0.587 x 51 + 0.114 x 255 = 59.0; 0.299 x 10 + 0.587 x 20 + 0.114 x 30 = 18.2."""
    found = fed(feed(colours, layout, dtype), PIXELS)
    assert (found.shape, found.dtype.name, found.ravel().tolist()) == (shape, dtype, values)
    assert found.flags.c_contiguous


@given(st.integers(0, 255))
def test_grey_stays_the_same_grey(level: int) -> None:
    assert fed(feed("grey", "nhw", "uint8"), np.full((1, 1, 3), level, np.uint8)).item() == level


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"how": "stretch", "zoom": 0.5}, "zoom is for how 'crop' only"),
        ({"how": "crop", "fill": 1}, "fill is for how 'letterbox' only"),
        ({"how": "crop", "zoom": 0.0}, "zoom"),
        ({"how": "crop", "zoom": 1.5}, "zoom"),
        ({"how": "letterbox", "fill": 256}, "fill"),
        ({"how": "letterbox", "fill": [0, 0]}, "fill"),
        ({"how": "squeeze"}, "how"),
        ({"how": "crop", "method": "hamming"}, "method"),
        ({"how": "crop", "scale": 2}, "scale"),
    ],
)
def test_refuses_a_fit_that_makes_no_sense(options: dict[str, object], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert({"width": 8, "height": 8, "method": "box", **options}, type=FitImage)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"mean": [1, 2]}, "mean has 2 numbers, expected 1 or 3"),
        ({"std": [1, 1, 0]}, "std"),
        ({"colours": "grey", "std": [1, 1, 1]}, "std has 3 numbers, expected 1 or 1"),
        ({"dtype": "uint8", "scale": 0.5}, "for dtype 'float32' only"),
        ({"dtype": "uint8", "mean": [1]}, "for dtype 'float32' only"),
        ({"layout": "nhw"}, "layout 'nhw' has one channel"),
        ({"scale": 0}, "scale"),
        ({"scale": float("nan")}, "scale"),
        ({"mean": [float("inf")]}, "mean"),
        ({"dtype": "int8"}, "dtype"),
        ({"colours": "yuv"}, "colours"),
        ({"layout": "nwhc"}, "layout"),
    ],
)
def test_refuses_a_feed_that_makes_no_sense(options: dict[str, object], said: str) -> None:
    parameters = {"input": "in", "colours": "rgb", "layout": "nhwc", "dtype": "float32", **options}
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(parameters, type=FeedImage)


BOX = Letterbox(input="in", width=8, height=4, low=-1.0, high=1.0)


def test_black_beside_a_wide_picture_is_low_and_white_is_high() -> None:
    prepared = BOX.apply(plain(8, 2))
    (call,) = prepared.calls
    assert (call["in"].shape, call["in"].dtype.name) == ((1, 4, 8, 3), "float32")
    assert call["in"][0, :, :, 0].tolist() == [[-1.0] * 8, [1.0] * 8, [1.0] * 8, [-1.0] * 8]
    assert prepared.context == Placement(left=0.0, top=0.25, width=1.0, height=0.5)


def test_black_beside_a_tall_picture_is_low_and_white_is_high() -> None:
    prepared = BOX.apply(plain(50, 100))
    assert prepared.calls[0]["in"][0, 0, :, 0].tolist() == [-1.0] * 3 + [1.0] * 2 + [-1.0] * 3
    assert prepared.context == Placement(left=0.375, top=0.0, width=0.25, height=1.0)


def test_values_lie_between_low_and_high() -> None:
    step = Letterbox(input="in", width=3, height=1, low=0.0, high=510.0)
    pixels = np.array([[[0] * 3, [51] * 3, [255] * 3]], np.uint8)
    np.testing.assert_allclose(step.apply(Picture(pixels=pixels)).calls[0]["in"][0, 0, :, 0], [0, 102, 510], rtol=1e-6)
