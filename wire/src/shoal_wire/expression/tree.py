"""What does an expression consist of?

`at` is the number of characters before the place that a mistake in it is shown at.
"""

from dataclasses import dataclass

Value = bool | float | str | None
"""Of a field: None where the device has nothing of that name. Numbers are all of one kind."""


@dataclass(frozen=True)
class Literal:
    """true, 2.5, "north"."""

    at: int
    value: bool | float | str


@dataclass(frozen=True)
class Name:
    """A field: online."""

    at: int
    name: str


@dataclass(frozen=True)
class Entry:
    """What a map has under a key: labels.site, runs["note-events"]."""

    at: int
    map: Name
    key: str


@dataclass(frozen=True)
class Has:
    """Whether a map has a key: has(labels.site), "site" in labels."""

    at: int
    entry: Entry


@dataclass(frozen=True)
class Not:
    at: int
    operand: "Expression"


@dataclass(frozen=True)
class Negative:
    at: int
    operand: "Expression"


@dataclass(frozen=True)
class Binary:
    """`operator`: one of && || == != < <= > >= + - * /"""

    at: int
    operator: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True)
class Among:
    """profile in ["raspberry-pi-4", "raspberry-pi-5"]."""

    at: int
    operand: "Expression"
    choices: tuple[Literal, ...]


@dataclass(frozen=True)
class Match:
    """`method`: startsWith, endsWith or contains."""

    at: int
    method: str
    operand: "Expression"
    part: str


Expression = Literal | Name | Entry | Has | Not | Negative | Binary | Among | Match
