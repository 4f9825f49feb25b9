"""Which items of an evaluation set become golden cases?

A board runs them before a release may serve. Easy ones fail where something is badly wrong; those at the boundary and
hard ones where a little is. Only items that are answered rightly: others can't tell right from wrong.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from shoal_agent.front.operations.values import Answer

from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData
from shoal_converters.tasks.task import Task

Kind = Literal["easy", "hard", "boundary"]

LEAST_MARGIN = 0.02
"""Nearer to the boundary, the rounding of another processor may change the answer."""

_TURNS: tuple[Kind, ...] = ("easy", "boundary", "hard")


@dataclass(frozen=True, kw_only=True)
class Picked:
    """An item, with what a golden case can expect of it, and why it was taken."""

    item: Item
    place: int
    """In the set."""
    kind: Kind


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    place: int
    label: str
    margin: float
    rating: float
    """The least of those of the original and of the others."""
    agreement: float
    """The least of the others with the original."""


def pick_golden_cases(
    items: Sequence[Item],
    answers: Sequence[Answer],
    *,
    others: Sequence[Sequence[Answer]] = (),
    task: Task,
    count: int,
) -> list[Picked]:
    """Pick at most `count` items, in turn easy, at the boundary, and hard; the same for the same answers.

    `answers` are the original's, `others` those of engines and variants that are to pass too. An item that one of them
    answers wrongly, or nearer to the boundary than LEAST_MARGIN, is none. Easy: the largest margins. Boundary: the
    smallest. Hard: where the others agree least with the original or, if all do, with the lowest rating. Of each kind,
    labels that have no case yet come first.

    Raises:
        BadData: no item is answered rightly.
    """
    found = [_look(place, items, answers, others=others, task=task) for place in range(len(items))]
    waiting = [one for one in found if one is not None]
    if not waiting:
        raise BadData(f"golden cases: none of {len(items)} items is answered rightly and away from the boundary")
    used: Counter[str] = Counter()
    picked = []
    for turn in range(min(count, len(waiting))):
        kind = _TURNS[turn % len(_TURNS)]
        best = min(waiting, key=lambda one: (used[one.label], *_rank(one, kind=kind), one.place))
        waiting.remove(best)
        used[best.label] += 1
        item = items[best.place]
        expected = task.expect(answers[best.place], item.expected)
        picked.append(Picked(item=replace(item, expected=expected), place=best.place, kind=kind))
    return picked


def _look(
    place: int, items: Sequence[Item], answers: Sequence[Answer], *, others: Sequence[Sequence[Answer]], task: Task
) -> _Candidate | None:
    """An item as a candidate; None where it can't be one."""
    expected, original = items[place].expected, answers[place]
    all_answers = [original, *(of_one[place] for of_one in others)]
    margin = min(task.margin(answer, expected) for answer in all_answers)
    if margin < LEAST_MARGIN:
        return None
    return _Candidate(
        place=place,
        label=task.describe(expected),
        margin=margin,
        rating=min(task.rate(answer, expected) for answer in all_answers),
        agreement=min((task.agree(answer, original) for answer in all_answers[1:]), default=1.0),
    )


def _rank(one: _Candidate, *, kind: Kind) -> tuple[float, ...]:
    """The lowest is the best of its kind."""
    return {
        "easy": (-one.margin,),
        "boundary": (one.margin,),
        "hard": (one.agreement, one.rating, one.margin),
    }[kind]
