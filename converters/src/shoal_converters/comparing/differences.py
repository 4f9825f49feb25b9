"""How far do the values of a tensor differ in two models? Measures over any number of calls."""

import math
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Of one tensor, over all calls. The first model is the reference."""

    max_abs: float
    """The largest difference of two values."""
    rms_relative: float
    """Root mean square of the differences, divided by that of the reference; infinite where the reference is 0."""
    cosine: float
    """Of the angle between all values of both; 1 where they have the same direction."""
    argmax_agreement: float | None = None
    """How often the largest value along the last axis is in the same place; None where that has one value only."""
    not_finite: int = 0
    """Values that are no numbers or infinite in one model only."""


@dataclass
class Meter:
    """Adds up call by call."""

    calls: int = 0
    max_abs: float = 0.0
    squares: float = 0.0
    """Sum of the squares of the differences."""
    reference: float = 0.0
    other: float = 0.0
    product: float = 0.0
    agreed: int = 0
    compared: int = 0
    not_finite: int = 0

    def add(self, reference: NDArray[Any], other: NDArray[Any]) -> None:
        """Two arrays of the same shape."""
        one, two = reference.astype(np.float64), other.astype(np.float64)
        finite = np.isfinite(one) & np.isfinite(two)
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        self.not_finite += int(np.count_nonzero(~finite & ~same))
        self.calls += 1
        if one.ndim and one.shape[-1] > 1 and one.size:
            agreed = one.argmax(axis=-1) == two.argmax(axis=-1)
            self.agreed += int(np.count_nonzero(agreed))
            self.compared += agreed.size
        one, two = np.where(finite, one, 0.0), np.where(finite, two, 0.0)
        difference = two - one
        self.max_abs = max(self.max_abs, float(np.abs(difference).max(initial=0.0)))
        self.squares += float(np.vdot(difference, difference))
        self.reference += float(np.vdot(one, one))
        self.other += float(np.vdot(two, two))
        self.product += float(np.vdot(one, two))

    def read(self) -> Difference:
        """What was added up."""
        relative = 0.0 if self.squares == 0.0 else math.inf
        if self.reference:
            relative = math.sqrt(self.squares / self.reference)
        lengths = math.sqrt(self.reference) * math.sqrt(self.other)
        straight = 1.0 if self.reference == self.other else 0.0
        cosine = min(1.0, max(-1.0, self.product / lengths)) if lengths else straight
        return Difference(
            max_abs=self.max_abs,
            rms_relative=relative,
            cosine=cosine,
            argmax_agreement=self.agreed / self.compared if self.compared else None,
            not_finite=self.not_finite,
        )
