"""How does a picture of any size become the input of a model?

Pillow scales pictures: its arithmetic for 8-bit pixels is in integers, so that all boards get the same input from the
same file.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from shoal_agent.front.operations.errors import BadInput
from shoal_agent.front.operations.images import Pixels, check_pillow
from shoal_agent.front.operations.outputs import Name
from shoal_agent.front.operations.values import FittedPicture, Picture, Placement, Prepared

MAX_SIDE = 4_096
"""Of a model's input."""
LEAST_PART = 1 / 64
"""Of a pixel of the picture, that a crop may show along a side: Pillow takes places in single precision."""

Side = Annotated[int, Meta(ge=1, le=MAX_SIDE)]
Finite = Annotated[float, Meta(ge=-1e6, le=1e6)]
Positive = Annotated[float, Meta(gt=0, le=1e6)]
Level = Annotated[int, Meta(ge=0, le=255)]
Colour = Annotated[tuple[Level, ...], Meta(min_length=3, max_length=3)]
"""Not tuple[Level, Level, Level]: msgspec 0.23 crashes on a union of that with a number that has bounds."""
Size = tuple[int, int]
"""Width and height in pixels."""
How = Literal["stretch", "letterbox", "crop"]
Method = Literal["nearest", "box", "bilinear", "bicubic", "lanczos"]
"""Pillow's filters. All but `nearest` look at every pixel of a picture that becomes smaller."""
Colours = Literal["rgb", "bgr", "grey"]
Layout = Literal["nhwc", "nchw", "nhw", "flat"]


class _Fit(NamedTuple):
    """Which part of a picture is scaled to what size, and where in the input it is put."""

    part: tuple[float, float, float, float]
    """Left, top, right, bottom in pixels of the picture."""
    size: Size
    at: tuple[int, int]
    """Left and top in pixels of the input."""
    placement: Placement


class FitImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`image.fit`: a picture scaled to `width` x `height` pixels.

    stretch: the whole picture, whatever becomes of its proportions. letterbox: the whole picture in its proportions, in
    the middle, with `fill` beside it; of an odd number of pixels left over, the larger half is right or below. crop:
    the middle of the picture in its proportions, which fills the input.

    A crop is what scaling the whole picture and cutting out the middle gives: the shorter side (by the input's
    proportions) becomes the input's divided by `zoom`, the longer one follows, fractions of a pixel are dropped. With
    `zoom` 0.875 and 224 x 224 pixels, that is torchvision's Resize(256) and CenterCrop(224). Some values differ by 1
    from that, because only what is kept is computed.
    """

    takes: ClassVar[type] = Picture
    gives: ClassVar[type] = FittedPicture

    width: Side
    height: Side
    how: How
    method: Method
    zoom: Annotated[float, Meta(ge=0.01, le=1)] = 1.0
    """Of a crop: the part of the shorter side that is kept."""
    fill: Level | Colour = 0
    """Of a letterbox: grey, or red, green and blue."""

    def __post_init__(self) -> None:
        check_pillow("image.fit")
        if self.zoom != 1.0 and self.how != "crop":
            raise ValueError(f"zoom is for how 'crop' only, found {self.how!r}")
        if self.fill != 0 and self.how != "letterbox":
            raise ValueError(f"fill is for how 'letterbox' only, found {self.how!r}")

    def apply(self, picture: Picture) -> FittedPicture:
        """Scale a picture. A side that would vanish keeps one pixel.

        Raises:
            BadInput: a crop of a picture so narrow that hardly anything of it would be left.
        """
        fit = _PLANS[self.how](_size_of(picture), (self.width, self.height), self.zoom)
        canvas = np.empty((self.height, self.width, 3), dtype=np.uint8)
        canvas[:] = self.fill
        return _place(picture, fit, method=self.method, canvas=canvas)


class FeedImage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`image.feed`: pixels as the numbers that a network wants, for its input `input`.

    A value of 0 to 255 becomes `(value * scale - mean) / std`. `mean` and `std` are for each channel, in the order of
    `colours`, or one for all. Grey is the luma of ITU-R BT.601 as Pillow computes it: (19,595 R + 38,470 G + 7,471 B)
    / 65,536, rounded.
    """

    takes: ClassVar[type] = FittedPicture
    gives: ClassVar[Any] = Prepared[Placement]

    input: Name
    colours: Colours
    layout: Layout
    """[1, height, width, channels], [1, channels, height, width], [1, height, width] (grey), or [1, values] in the
    order of nhwc."""
    dtype: Literal["float32", "uint8"]
    """uint8: as they are, without `scale`, `mean` and `std`."""
    scale: Positive = 1.0
    mean: Annotated[tuple[Finite, ...], Meta(max_length=3)] = ()
    std: Annotated[tuple[Positive, ...], Meta(max_length=3)] = ()

    def __post_init__(self) -> None:
        check_pillow("image.feed")
        channels = 1 if self.colours == "grey" else 3
        if self.layout == "nhw" and channels != 1:
            raise ValueError(f"layout 'nhw' has one channel, expected colours 'grey', found {self.colours!r}")
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if len(numbers) not in (0, 1, channels):
                raise ValueError(f"{name} has {len(numbers)} numbers, expected 1 or {channels}: one for each channel")
        if self.dtype == "uint8" and (self.scale != 1.0 or self.mean or self.std):
            raise ValueError("scale, mean and std are for dtype 'float32' only")

    def apply(self, fitted: FittedPicture) -> Prepared[Placement]:
        """Give one call. Values are computed in float32, from factors and offsets that were computed in float64."""
        channels = self._colour(fitted.pixels)
        laid_out = np.empty(self._shape(channels), dtype=self.dtype)
        by_channel = laid_out.transpose(1, 2, 0) if self.layout == "nchw" else laid_out.reshape(channels.shape)
        std = np.broadcast_to(self.std or (1.0,), channels.shape[2])
        offsets = np.asarray(-np.divide(self.mean or (0.0,), std), np.float32)
        factors = np.asarray(self.scale / std, np.float32)
        for channel in range(channels.shape[2]):  # a loop over three is faster than arithmetic in runs of three
            if self.dtype == "uint8":
                by_channel[:, :, channel] = channels[:, :, channel]
            else:
                values = np.multiply(channels[:, :, channel], factors[channel], dtype=np.float32)
                np.add(values, offsets[channel], out=by_channel[:, :, channel])
        fed = {self.input: laid_out[np.newaxis]}
        return Prepared(calls=[fed], context=replace(fitted.placement, fed=fed))

    def _colour(self, pixels: Pixels) -> Pixels:
        """[height, width, channels]."""
        from PIL import Image

        if self.colours == "grey":
            return np.asarray(Image.fromarray(pixels).convert("L"))[:, :, np.newaxis]
        return pixels if self.colours == "rgb" else pixels[:, :, ::-1]

    def _shape(self, channels: Pixels) -> tuple[int, ...]:
        height, width, count = channels.shape
        shapes: Mapping[Layout, tuple[int, ...]] = {
            "nhwc": (height, width, count),
            "nchw": (count, height, width),
            "nhw": (height, width),
            "flat": (height * width * count,),
        }
        return shapes[self.layout]


class Letterbox(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`image.letterbox`: the picture scaled to fit into `width` x `height`, in the middle, with black beside it.

    A float32[1, height, width, 3] for the input `input`, where black is `low` and white `high`.
    """

    takes: ClassVar[type] = Picture
    gives: ClassVar[Any] = Prepared[Placement]

    input: Name
    width: Side
    height: Side
    low: Finite = 0.0
    high: Finite = 1.0

    def __post_init__(self) -> None:
        check_pillow("image.letterbox")

    def apply(self, picture: Picture) -> Prepared[Placement]:
        """Scale and place a picture. A side that would vanish keeps one pixel."""
        fit = _plan_letterbox(_size_of(picture), (self.width, self.height), 1.0)
        canvas = np.zeros((self.height, self.width, 3), dtype=np.uint8)
        fitted = _place(picture, fit, method="bilinear", canvas=canvas)
        values = fitted.pixels.astype(np.float32) * np.float32((self.high - self.low) / 255) + np.float32(self.low)
        return Prepared(calls=[{self.input: values[np.newaxis]}], context=fitted.placement)


def _size_of(picture: Picture) -> Size:
    height, width = picture.pixels.shape[:2]
    return width, height


def _plan_stretch(size: Size, into: Size, _: float) -> _Fit:
    whole = Placement(left=0.0, top=0.0, width=1.0, height=1.0)
    return _Fit(part=(0, 0, *size), size=into, at=(0, 0), placement=whole)


def _plan_letterbox(size: Size, into: Size, _: float) -> _Fit:
    scale = min(into[0] / size[0], into[1] / size[1])
    scaled = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
    at = (into[0] - scaled[0]) // 2, (into[1] - scaled[1]) // 2
    return _Fit(part=(0, 0, *size), size=scaled, at=at, placement=_placement(at, scaled, into=into))


def _plan_crop(size: Size, into: Size, zoom: float) -> _Fit:
    if into[0] * size[1] >= into[1] * size[0]:
        width = int(into[0] / zoom)
        scaled = width, width * size[1] // size[0]
    else:
        height = int(into[1] / zoom)
        scaled = height * size[0] // size[1], height
    cut = round((scaled[0] - into[0]) / 2), round((scaled[1] - into[1]) / 2)
    left, top = (cut[axis] * size[axis] / scaled[axis] for axis in (0, 1))
    right, bottom = (min(size[axis], (cut[axis] + into[axis]) * size[axis] / scaled[axis]) for axis in (0, 1))
    if min(right - left, bottom - top) < LEAST_PART:
        raise BadInput(
            f"image: {size[0]} x {size[1]} pixels, of which a crop to {into[0]} x {into[1]} shows {right - left:.3g} x "
            f"{bottom - top:.3g}, expected at least {LEAST_PART:.3g} on each side"
        )
    placement = _placement((-cut[0], -cut[1]), scaled, into=into)
    return _Fit(part=(left, top, right, bottom), size=into, at=(0, 0), placement=placement)


_PLANS: Mapping[How, Callable[[Size, Size, float], _Fit]] = {
    "stretch": _plan_stretch,
    "letterbox": _plan_letterbox,
    "crop": _plan_crop,
}


def _placement(at: tuple[int, int], scaled: Size, *, into: Size) -> Placement:
    """Of a whole picture that was scaled to `scaled` pixels and has its upper left corner at `at`."""
    return Placement(left=at[0] / into[0], top=at[1] / into[1], width=scaled[0] / into[0], height=scaled[1] / into[1])


def _place(picture: Picture, fit: _Fit, *, method: Method, canvas: Pixels) -> FittedPicture:
    """Scale a picture into a canvas, which the result keeps."""
    from PIL import Image

    filtered = Image.Resampling[method.upper()]
    scaled = Image.fromarray(picture.pixels).resize(fit.size, filtered, box=fit.part)
    left, top = fit.at
    canvas[top : top + fit.size[1], left : left + fit.size[0]] = np.asarray(scaled)
    return FittedPicture(pixels=canvas, placement=fit.placement)
