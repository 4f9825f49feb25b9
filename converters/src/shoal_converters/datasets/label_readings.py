"""Does a set call labels by their names, or by their places in the recipe's list? Decided once for the whole set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from shoal_converters.datasets.found import name_some
from shoal_converters.errors import BadData
from shoal_converters.tasks.labels import Places, shorten
from shoal_converters.tasks.task import Expected, Task

Reading = Literal["names", "places"]
LabelsAre = Literal["either", "names", "places"]
"""As the recipe says it."""

_READINGS: Mapping[LabelsAre, tuple[Reading, ...]] = {
    "either": ("names", "places"),
    "names": ("names",),
    "places": ("places",),
}


@dataclass(frozen=True, kw_only=True)
class ReadLabel:
    """What the set says of one item, in each reading."""

    item: str
    label: str
    """For people."""
    answers: Mapping[Reading, Expected]
    """By the readings that fit."""
    faults: Mapping[Reading, str]
    """By those that don't: why."""


def read_label(label: object, *, item: str, task: Task, labels: Sequence[str], labels_are: LabelsAre) -> ReadLabel:
    """Parse a label in every reading that the recipe leaves open; `labels` is its list."""
    answers: dict[Reading, Expected] = {}
    faults: dict[Reading, str] = {}
    for reading in _READINGS[labels_are]:
        try:
            answers[reading] = task.parse_label(label, labels=Places(labels) if reading == "places" else labels)
        except BadData as error:
            faults[reading] = str(error)
    return ReadLabel(item=item, label=shorten(label), answers=answers, faults=faults)


def choose_reading(said: Sequence[ReadLabel], *, task: Task, labels_are: LabelsAre) -> Reading:
    """The reading that fits all labels of a set.

    Raises:
        BadData: none does, or both do and say different things of an item.
    """
    readings = _READINGS[labels_are]
    faults = {reading: [one for one in said if reading in one.faults] for reading in readings}
    fitting = [reading for reading in readings if not faults[reading]]
    if not fitting:
        nearest = min(readings, key=lambda reading: len(faults[reading]))
        first_of: dict[str, str] = {}
        for one in faults[nearest]:
            first_of.setdefault(one.faults[nearest], one.item)
        raise BadData(name_some([f"{item}: {fault}" for fault, item in first_of.items()]))
    if len(fitting) > 1:
        _check_same(said, task=task)
    return fitting[0]


def _check_same(said: Sequence[ReadLabel], *, task: Task) -> None:
    for one in said:
        name, place = one.answers["names"], one.answers["places"]
        if name != place:
            raise BadData(
                f"{one.item}: label {one.label} is {task.describe(name)} if labels are names, but "
                f"{task.describe(place)} if they are places in the recipe's list, and the whole set can "
                'be read either way: write labels_are = "names" or labels_are = "places" beside its path in the recipe'
            )
