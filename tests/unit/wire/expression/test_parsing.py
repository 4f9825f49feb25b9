"""Is a text read as CEL reads it, and is a mistake explained where it is?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_wire.expression.checking import check
from shoal_wire.expression.errors import WrongExpression
from shoal_wire.expression.parsing import MAX_CHARACTERS, MAX_DEPTH, MAX_OPERATORS, parse
from shoal_wire.expression.tree import Binary, Name, Not

from tests.unit.wire.expression.fields import FIELDS


def test_and_binds_closer_than_or_and_a_comparison_closer_than_both() -> None:
    found = parse("a || b && c == 1")
    assert isinstance(found, Binary) and found.operator == "||"
    assert isinstance(found.right, Binary) and found.right.operator == "&&"
    assert isinstance(found.right.right, Binary) and found.right.right.operator == "=="


def test_operators_of_one_level_are_taken_from_the_left() -> None:
    found = parse("8 - 4 - 2 > 1")
    assert isinstance(found, Binary) and isinstance(found.left, Binary)
    assert isinstance(found.left.left, Binary) and found.left.left.operator == "-"


def test_not_binds_closer_than_and() -> None:
    found = parse("!a && b")
    assert isinstance(found, Binary)
    assert found.left == Not(0, Name(1, "a"))


MISTAKES = {
    "": (0, "expected a name, a number, a text in quotes, or (, found the end"),
    "labls.site == 'north'": (0, "labls: no such name; did you mean labels?"),
    "online = true": (7, "'=' has no meaning here; did you mean ==?"),
    "online and online": (7, "expected an operator or the end; did you mean &&?, found and"),
    "labels.site == 'north": (15, "expected ' at the end of the text that begins here"),
    "name == 3": (8, "== expected a text here, found a number"),
    "age_s < 'x'": (8, "< expected a number here, found a text"),
    "name < 'x'": (0, "< expected a number here, found a text"),
    "!name": (1, "! expected true or false here, found a text"),
    "age_s + 1": (6, "expected a condition, which is true or false; this is a number"),
    "labels == 'x'": (0, 'labels: expected a key, as in labels["…"]'),
    "name.site == 'x'": (0, "name is a text and has no parts"),
    "1 < age_s < 3": (10, "one comparison can't follow another: join them with &&"),
    "profile in []": (12, "expected a name, a number, a text in quotes, or (, found ]"),
    "profile in ['a', 2]": (17, "in expected a text here, found a number"),
    "profile in ['a', name]": (17, "expected a number, a text in quotes, true or false"),
    "name.matches('x')": (5, "matches(): expected startsWith, endsWith, contains"),
    "name.startsWith(name)": (16, 'expected a text in quotes, as in name.startsWith("yard"), found name'),
    "has(name)": (4, "has(): expected an entry, as has(labels.site)"),
    "(online": (7, "expected ), found the end"),
    "runs['x'] > 9e99": (12, "expected a number of at most 9007199254740992"),
    r"name == 'a\q'": (10, r"\q: expected one of \\ \" \' \n \t"),
    "labels.a.b == 'x'": (9, "expected nothing after this, found 'b'"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_explained_where_it_is(text: str) -> None:
    with pytest.raises(WrongExpression) as caught:
        check(text, FIELDS)
    assert (caught.value.at, caught.value.problem) == MISTAKES[text]


def test_a_mistake_is_drawn_in_its_line() -> None:
    with pytest.raises(WrongExpression) as caught:
        check("online &&\n\tlabls.site == 'north'", FIELDS)
    assert str(caught.value) == (
        "line 2, column 2: labls: no such name; did you mean labels?\n    \tlabls.site == 'north'\n    \t^"
    )


@pytest.mark.parametrize("text", ["(" * 5000, "!" * 1500 + "online", "-" * (MAX_DEPTH + 1) + "1 == 1", "a" * 2001])
def test_what_is_too_long_or_too_deep_is_refused(text: str) -> None:
    with pytest.raises(WrongExpression, match=f"nested more than {MAX_DEPTH} deep|at most {MAX_CHARACTERS}"):
        parse(text)


def test_a_long_chain_is_no_depth() -> None:
    check(" || ".join(["online"] * (MAX_OPERATORS + 1)), FIELDS)
    with pytest.raises(WrongExpression, match="more than 100 operators"):
        check("||".join(["1==1"] * 300), FIELDS)


PIECES = [
    "online",
    "name",
    "labels",
    "runs",
    ".",
    "[",
    "]",
    "(",
    ")",
    "has",
    "in",
    "==",
    "&&",
    "||",
    "!",
    "-",
    "1",
    "'x'",
]


@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=20).map(" ".join)))
def test_any_text_is_an_expression_or_is_refused(text: str) -> None:
    try:
        check(text, FIELDS)
    except WrongExpression as error:
        assert 0 <= error.at <= len(text)
        assert str(error).endswith("^")
