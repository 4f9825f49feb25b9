"""What does a reader of a data set find, before a single item's bytes are read?"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from shoal_wire.encoding import Parameters

from shoal_converters.errors import BadData, BadRecipe

OptionsT = TypeVar("OptionsT")

SHOWN = 3
"""Faults of one kind that a message names; the others are counted."""


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a reader that has none, and what those of the others are made from."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a recipe says of a set."""

    path: str
    """As the recipe has it."""
    folder: Path
    """The recipe's."""
    options: Parameters
    task: str
    """Name of the task: in a set of sounds for events, the folder's label lasts as long as the sound."""

    @property
    def place(self) -> Path:
        """The file or folder that `path` names."""
        return self.folder / self.path


class Loaded(NamedTuple):
    """An item's content. `label` is what the set says of it, for the task to parse; None where it says nothing."""

    raw: bytes
    label: object


@dataclass(frozen=True, kw_only=True)
class Found:
    """An item that is there. Names are unique in a set."""

    name: str
    suffix: str
    stratum: str
    """Its label where labels are few names, so that a drawn part can keep their shares; else empty."""
    load: Callable[[], Loaded]
    """Raises BadData."""


def parse_options(asked: Asked, kind: type[OptionsT]) -> OptionsT:
    """Options of a reader.

    Raises:
        BadRecipe: an unknown one, or a value of another type.
    """
    try:
        return msgspec.convert(asked.options, type=kind)
    except msgspec.ValidationError as error:
        raise BadRecipe(f"data set {asked.path}: options: {error}") from None


def read_bytes(path: Path) -> bytes:
    """A file of a set.

    Raises:
        BadData: it can't be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadData(f"{path}: can't be read: {error.strerror or error}") from None


def name_some(faults: list[str]) -> str:
    """The first few of a list of faults, and how many there are beyond them."""
    more = len(faults) - SHOWN
    return "; ".join(faults[:SHOWN]) + (f"; and {more} more" if more > 0 else "")
