"""Which items are picked as golden cases, and which never?"""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_converters.datasets.items import Item
from shoal_converters.errors import BadData
from shoal_converters.golden_cases import LEAST_MARGIN, pick_golden_cases
from shoal_converters.tasks import make_task

CLASSES = make_task("classification", {})


def item(place: int, label: str = "a") -> Item:
    return Item(name=str(place), raw=bytes([place]), expected={"label": label})


def says(score: float, *, label: str = "a") -> dict[str, Any]:
    """With that score for a label, and the rest for another."""
    other = "z" if label == "a" else "a"
    classes = [{"label": label, "score": score}, {"label": other, "score": 1 - score}]
    return {"classes": sorted(classes, key=lambda one: -float(str(one["score"])))}


def test_easy_boundary_and_hard_take_turns() -> None:
    """Margins by place: 0.98, 0.04, 0.8, 0.3, 0.2. All agree, so the lowest score left is the hard one."""
    answers = [says(score) for score in (0.99, 0.52, 0.9, 0.65, 0.6)]
    picked = pick_golden_cases([item(place) for place in range(5)], answers, task=CLASSES, count=4)
    assert [(one.place, one.kind) for one in picked] == [(0, "easy"), (1, "boundary"), (4, "hard"), (2, "easy")]
    assert picked[1].item == item(1)


def test_wrong_ones_and_those_too_near_the_boundary_are_none() -> None:
    answers = [says(0.9), says(0.4), says(0.5 + LEAST_MARGIN / 4), says(0.6)]
    items = [item(place) for place in range(4)]
    assert [one.place for one in pick_golden_cases(items, answers, task=CLASSES, count=9)] == [0, 3]
    others = [[says(0.9), says(0.9), says(0.9), says(0.3)]]
    assert [one.place for one in pick_golden_cases(items, answers, others=others, task=CLASSES, count=9)] == [0]


def test_hard_is_where_others_agree_least() -> None:
    task = make_task("regression", {"scale": 10.0})
    items = [Item(name=str(place), raw=b"", expected={"values": {"t": 0.0}}) for place in range(4)]
    answers = [{"values": {"t": value}} for value in (0.0, 4.0, 1.0, 2.0)]
    others = [[{"values": {"t": value}} for value in (0.0, 4.0, 3.5, 2.0)]]
    picked = pick_golden_cases(items, answers, others=others, task=task, count=3)
    assert [(one.place, one.kind) for one in picked] == [(0, "easy"), (1, "boundary"), (2, "hard")]


def test_labels_without_a_case_come_first() -> None:
    items = [item(place, "a") for place in range(6)] + [item(6, "b"), item(7, "c")]
    answers = [says(0.9)] * 6 + [says(0.6, label="b"), says(0.6, label="c")]
    picked = pick_golden_cases(items, answers, task=CLASSES, count=3)
    assert {one.item.expected["label"] for one in picked} == {"a", "b", "c"}


def test_what_only_the_original_can_say_is_expected_of_the_case() -> None:
    task = make_task("embedding", {})
    items = [Item(name="x", raw=b"", expected={"group": "g"})]
    (picked,) = pick_golden_cases(items, [{"embedding": [1.0, 0.0]}], task=task, count=1)
    assert picked.item.expected == {"embedding": [1.0, 0.0]}


def test_without_a_right_answer_there_are_no_cases() -> None:
    with pytest.raises(BadData, match="none of 2 items is answered rightly"):
        pick_golden_cases([item(0), item(1)], [says(0.1), says(0.2)], task=CLASSES, count=3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), min_size=1, max_size=30), st.integers(1, 12))
def test_picks_are_right_different_and_spread(shown: list[tuple[str, float]], count: int) -> None:
    items = [item(place, label) for place, (label, _) in enumerate(shown)]
    answers = [says(score, label=label) for label, score in shown]
    fit = [place for place, (_, score) in enumerate(shown) if 2 * score - 1 >= LEAST_MARGIN + 1e-9]
    if not fit:
        return
    picked = pick_golden_cases(items, answers, task=CLASSES, count=count)
    assert [one.place for one in picked] == [
        one.place for one in pick_golden_cases(items, answers, task=CLASSES, count=count)
    ]
    places = {one.place for one in picked}
    assert len(places) == len(picked) >= min(count, len(fit))
    there, used = Counter(shown[place][0] for place in fit), Counter(shown[place][0] for place in places)
    fewest = min((used[label] for label in there if used[label] < there[label]), default=None)
    assert fewest is None or max(used.values()) <= fewest + 1
