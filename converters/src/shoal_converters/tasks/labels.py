"""Which label does a data set mean, which number, which object?"""

import contextlib
import math
import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import TypeVar

import msgspec

from shoal_converters.errors import BadData

KindT = TypeVar("KindT")

_SHOWN = 10
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLACE_DIGITS = 6
"""At most."""


class Places(tuple[str, ...]):
    """A recipe's labels, for a set that calls them by their places, from 0. Any other sequence: by their names."""


def parse_name(label: object, *, labels: Sequence[str]) -> str:
    """The name of a label that is called by its name or, where `labels` are Places, by its place.

    Both may be numbers or text. With an empty list every text is the name of a label.

    Raises:
        BadData: none of the list.
    """
    text = str(label)
    if isinstance(label, float) and label.is_integer():
        text = str(int(label))
    if isinstance(label, str | Integral | float) and not isinstance(label, bool):
        if isinstance(labels, Places):
            if text.isascii() and text.isdigit() and len(text) <= _PLACE_DIGITS and int(text) < len(labels):
                return labels[int(text)]
        elif text in labels or (not labels and text):
            return text
    raise BadData(f"label {shorten(label)}, expected {_say_labels(labels)}")


def parse_number(label: object, *, what: str) -> float:
    """A finite number, or text that is one.

    Raises:
        BadData: anything else.
    """
    number = math.nan
    if isinstance(label, str):
        with contextlib.suppress(ValueError):
            number = float(label)
    elif isinstance(label, Real) and not isinstance(label, bool):
        number = float(label)
    if not math.isfinite(number):
        raise BadData(f"{what} {label!r}, expected a finite number")
    return number


def parse_object(label: object, kind: type[KindT]) -> KindT:
    """An object of a JSON file, a table's row or a loader, strictly.

    Raises:
        BadData: a field is missing, unknown or of another type.
    """
    try:
        return msgspec.convert(label, type=kind)
    except msgspec.ValidationError as error:
        raise BadData(f"label {shorten(label)}: {error}") from None


def shorten(label: object) -> str:
    """A label as Python writes it, cut where it is long, and without addresses in memory, which say nothing."""
    said = _ADDRESS.sub("", repr(label))
    return said if len(said) <= 100 else f"{said[:100]}…"


def _say_labels(labels: Sequence[str]) -> str:
    if not labels:
        return "the name of a label"
    named = ", ".join(labels[:_SHOWN]) + (f", … ({len(labels)} in all)" if len(labels) > _SHOWN else "")
    places = f"places from 0 to {len(labels) - 1}"
    return f"{places}, of {named}" if isinstance(labels, Places) else f"one of {named}, or in the whole set {places}"
