"""Where in a picture is a box, and how far do boxes cover one another?"""

import msgspec
import numpy as np

from shoal_agent.front.operations.outputs import Fraction, Numbers
from shoal_agent.front.operations.values import Placement


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """Where something is, in fractions of the picture's width and height."""

    left: Fraction
    top: Fraction
    right: Fraction
    bottom: Fraction

    def __post_init__(self) -> None:
        if self.left > self.right or self.top > self.bottom:
            raise ValueError("left must not be right of right, nor top below bottom")

    @property
    def corners(self) -> Numbers:
        """float64[4]: left, top, right, bottom."""
        return np.array([self.left, self.top, self.right, self.bottom])


def move_to_picture(places: Numbers, placement: Placement) -> Numbers:
    """From fractions of a model's input to fractions of the picture. `places` is [n, 2] of x and y."""
    corner = np.array([placement.left, placement.top])
    size = np.array([placement.width, placement.height])
    return np.asarray((places - corner) / size)


def clip_to_picture(box: Numbers, placement: Placement) -> Numbers:
    """The part of a box (left, top, right, bottom, in fractions of the input) that is in the picture, in its fractions.

    A float64[2, 2], upper left and lower right; one of them isn't beyond the other where no part is.
    """
    return np.clip(move_to_picture(box.reshape(2, 2), placement), 0.0, 1.0)


def measure_iou(box: Numbers, others: Numbers) -> Numbers:
    """Intersection over union of a box (left, top, right, bottom) with each of others, float64[n]; 0 without areas."""
    across = np.minimum(box[2], others[:, 2]) - np.maximum(box[0], others[:, 0])
    down = np.minimum(box[3], others[:, 3]) - np.maximum(box[1], others[:, 1])
    common = np.maximum(across, 0.0) * np.maximum(down, 0.0)
    union = _area(box[np.newaxis]) + _area(others) - common
    ratios: Numbers = np.divide(common, union, out=np.zeros_like(common), where=union > 0)
    return ratios


def pair_boxes(seen: Numbers, found: Numbers) -> list[float]:
    """Intersection over union of each pair, those that overlap most paired first.

    Both are [n, 4] of left, top, right, bottom, and there are as many of one as of the other.
    """
    overlaps = np.stack([measure_iou(box, found) for box in seen])
    pairs = []
    for _ in seen:
        row, column = np.unravel_index(np.argmax(overlaps), overlaps.shape)
        pairs.append(float(overlaps[row, column]))
        overlaps[row, :] = overlaps[:, column] = -1.0
    return pairs


def _area(boxes: Numbers) -> Numbers:
    return np.maximum(boxes[:, 2] - boxes[:, 0], 0.0) * np.maximum(boxes[:, 3] - boxes[:, 1], 0.0)
