"""What is an item: raw bytes as a board would get them, and the answer that is right."""

from dataclasses import dataclass, field

from shoal_wire.encoding import Parameters


@dataclass(frozen=True, kw_only=True)
class Item:
    """One of a calibration or evaluation set."""

    name: str
    """For people: path in the folder, or number of the row."""
    raw: bytes
    """A whole file: PNG, JPEG, WAV, CSV, text. What the first operation of pre-processing takes."""
    expected: Parameters = field(default_factory=dict)
    """The right answer, in the form that the task's golden cases expect; empty in a calibration set without labels."""
    suffix: str = ""
    """Of the file's name, with its dot: `.png`."""
