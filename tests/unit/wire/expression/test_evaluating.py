"""Is a condition true of what it should be true of, also where something isn't known?"""

import math

import pytest
from shoal_wire.expression.checking import check
from shoal_wire.expression.evaluating import Values, is_true

from tests.unit.wire.expression.fields import FIELDS

BOARD: Values = {
    "name": "yard-3",
    "profile": "raspberry-pi-5",
    "online": True,
    "age_s": 12.5,
    "labels": {"site": "north", "cellar": ""},
    "runs": {"note-events": 2},
}
TRUE = [
    "online",
    "name == 'yard-3' && profile != 'x'",
    'labels.site == "north"',
    "labels['site'] in ['south', 'north']",
    "'cellar' in labels && has(labels.cellar) && !has(labels.roof)",
    "runs['note-events'] < 3 && runs[\"note-events\"] >= 2",
    "name.startsWith('yard') && name.endsWith('-3') && name.contains('d-') && name.contains('')",
    "age_s * 2 + 5 == 30 && -age_s < 0 && 10 - 4 - 3 == 3 && 7 / 2 == 3.5",
    "!online || true",
    "online == true && (online != false)",
    "labels.site != 'south'",
    "-1 in [-1, 2]",
]
FALSE = [
    "labels.roof == 'x'",
    "labels.roof == labels.roof",
    "labels.roof in ['x']",
    "labels.roof.contains('')",
    "runs['other'] < 3",
    "runs['other'] + 1 > 0",
    "runs['other'] >= 0 || runs['other'] < 0",
    "age_s / 0 == age_s / 0",
    "age_s / 0 > 1",
    " * ".join(["1e15"] * 25) + " > 1",
    "name.startsWith('Yard')",
]
UNLIKE = ["labels.roof != 'x'", "labels.roof != labels.roof", "runs['other'] != 0", "age_s / 0 != 1"]


@pytest.mark.parametrize("text", TRUE)
def test_holds(text: str) -> None:
    assert is_true(check(text, FIELDS), BOARD)


@pytest.mark.parametrize("text", FALSE)
def test_does_not_hold(text: str) -> None:
    assert not is_true(check(text, FIELDS), BOARD)


@pytest.mark.parametrize("text", UNLIKE)
def test_unlike_is_the_opposite_of_like_also_of_what_is_not_known(text: str) -> None:
    assert is_true(check(text, FIELDS), BOARD)
    assert not is_true(check(text.replace("!=", "=="), FIELDS), BOARD)


@pytest.mark.parametrize("text", ["online", "!(age_s > 1)", "labels.site != 'x'"])
def test_nothing_known_is_no_error(text: str) -> None:
    assert is_true(check(text, FIELDS), {}) is (text != "online")


def test_a_number_that_is_none_has_no_value() -> None:
    assert not is_true(check("age_s == age_s", FIELDS), {"age_s": math.nan})
