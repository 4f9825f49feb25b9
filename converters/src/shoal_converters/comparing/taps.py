"""What are the intermediate tensors that two models of one format share, and how do they become outputs?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Tap(NamedTuple):
    """A tensor that both models compute, by its name in the first; and where its values are found in each."""

    name: str
    operator: str
    first: str
    second: str


def output_name(number: int) -> str:
    """Of a tap among those that are looked at together: tensors' own names may be longer than a worker takes."""
    return f"shoal-tap-{number}"


class Tapped(NamedTuple):
    """The files of both models with some taps as further outputs (see `output_name`), the model first."""

    first: tuple[bytes, ...]
    second: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class Layers:
    """All of them, in the order in which the first model computes them."""

    taps: tuple[Tap, ...]
    unmatched: int
    """Tensors of floating point in the first model that the second one doesn't have."""
    build: Callable[[Sequence[Tap]], Tapped]
    """Gives the models with these taps."""
