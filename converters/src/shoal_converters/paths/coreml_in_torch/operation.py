"""What does an operator see of its operation in a Core ML program: arguments by name, as tensors or plain values?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor

from shoal_converters.errors import PathFailed

Argument: TypeAlias = Tensor | str | list[Tensor]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation that is being run. Floats are float32 here, integers int64."""

    operator: str
    name: str
    arguments: Mapping[str, Argument]
    """Those that are given."""
    count: int
    """Of its outputs."""

    @property
    def x(self) -> Tensor:
        """What nearly every operator works on."""
        return self.tensor("x")

    def has(self, name: str) -> bool:
        """Whether an optional argument is given."""
        return name in self.arguments

    def tensor(self, name: str) -> Tensor:
        """An argument as it is."""
        found = self.arguments[name]
        if not isinstance(found, Tensor):
            raise self.refuse(f"{name} isn't a tensor")
        return found

    def optional(self, name: str) -> Tensor | None:
        """The same, or None where it is left out."""
        return self.tensor(name) if self.has(name) else None

    def tensors(self, name: str) -> list[Tensor]:
        """An argument that is a list."""
        found = self.arguments[name]
        return found if isinstance(found, list) else [self.tensor(name)]

    def number(self, name: str, default: float | None = None) -> float:
        """A single number."""
        if not self.has(name) and default is not None:
            return default
        return float(self.tensor(name).item())

    def integer(self, name: str, default: int | None = None) -> int:
        """A single whole number."""
        return int(self.number(name, default))

    def integers(self, name: str, default: list[int] | None = None) -> list[int]:
        """Whole numbers; flags are 0 and 1."""
        if not self.has(name) and default is not None:
            return default
        return [int(number) for number in self.tensor(name).reshape(-1).tolist()]

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return bool(self.tensor(name).item()) if self.has(name) else default

    def text(self, name: str, default: str) -> str:
        """One of the operator's own words."""
        found = self.arguments.get(name, default)
        return found if isinstance(found, str) else default

    def refuse(self, reason: str) -> PathFailed:
        """An error to raise, that names the operation."""
        return PathFailed(f"Core ML operation {self.name} ({self.operator}): {reason}")


def to_tensor(value: Any) -> Tensor:
    """A number or array of a program in the types that are computed in here."""
    tensor = torch.as_tensor(value)
    if tensor.is_floating_point():
        return tensor.to(torch.float32)
    return tensor if tensor.dtype == torch.bool else tensor.to(torch.int64)
