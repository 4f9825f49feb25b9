"""What does an operator see of its node: attributes, and inputs whose values are known before the model runs?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shoal_converters.errors import PathFailed

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Node:
    """One node of an ONNX graph."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    """Empty where an optional one is left out."""
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    constants: Mapping[int, Array]
    """Inputs that are constants, by place."""
    opset: int

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or what the operator's definition says where it is left out."""
        return self.attributes.get(name, default)

    def has(self, place: int) -> bool:
        """Whether the input of that place is there."""
        return place < len(self.inputs) and bool(self.inputs[place])

    def constant(self, place: int) -> Array:
        """An input that decides shapes.

        Raises:
            PathFailed: it is computed while the model runs.
        """
        if place not in self.constants:
            raise self.refuse(f"input {place} is computed while the model runs, it must be a constant here")
        return self.constants[place]

    def numbers(self, place: int, attribute: str) -> list[int] | None:
        """Integers that are an input in newer opsets and an attribute in older ones; None where they are left out."""
        if self.has(place):
            return [int(number) for number in np.atleast_1d(self.constant(place))]
        found = self.get(attribute)
        return None if found is None else [int(number) for number in np.atleast_1d(found)]

    def refuse(self, reason: str) -> PathFailed:
        """An error to raise, that names the node."""
        return PathFailed(f"ONNX node {self.name} ({self.operator}): {reason}")
