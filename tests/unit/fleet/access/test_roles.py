"""Does a role count where it was given, and for what it includes, and nowhere and for nothing else?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shoal_fleet.access.roles import EVERYWHERE, Held, Role, check_within, choose_project, cut, is_within, reach
from shoal_fleet.errors import Refused, WrongRole

PROJECTS = st.sampled_from(["default", "yard", "roof", EVERYWHERE])
HELD = st.frozensets(st.builds(Held, PROJECTS, st.sampled_from(Role)))

MAY = {
    ("viewer", "viewer"),
    ("operator", "viewer"),
    ("operator", "operator"),
    ("releaser", "viewer"),
    ("releaser", "releaser"),
    ("admin", "viewer"),
    ("admin", "operator"),
    ("admin", "releaser"),
    ("admin", "admin"),
}
"""Which role suffices for which, as it was agreed."""


@pytest.mark.parametrize("holds", Role)
@pytest.mark.parametrize("needed", Role)
def test_roles_include_what_was_agreed(holds: Role, needed: Role) -> None:
    expected = {"yard"} if (holds.value, needed.value) in MAY else set()
    assert reach([Held("yard", holds)], needed) == expected


@given(HELD, st.sampled_from(Role), PROJECTS)
def test_a_project_is_reached_by_a_role_in_it_or_everywhere(held: frozenset[Held], needed: Role, project: str) -> None:
    expected = any(one.project in (project, EVERYWHERE) and (one.role.value, needed.value) in MAY for one in held)
    assert is_within(project, reach(held, needed)) is expected


@given(HELD, HELD, st.sampled_from(Role))
def test_more_roles_never_reach_less(held: frozenset[Held], more: frozenset[Held], needed: Role) -> None:
    assert reach(held, needed) <= reach(held | more, needed)


@given(HELD, HELD, st.sampled_from(Role), PROJECTS)
def test_what_is_cut_reaches_what_both_reach(
    held: frozenset[Held], limit: frozenset[Held], needed: Role, project: str
) -> None:
    expected = is_within(project, reach(held, needed)) and is_within(project, reach(limit, needed))
    assert is_within(project, reach(cut(held, limit=limit), needed)) is expected


@given(HELD, HELD)
def test_what_is_cut_says_nothing_twice(held: frozenset[Held], limit: frozenset[Held]) -> None:
    found = cut(held, limit=limit)
    for one in found:
        assert not is_within(one.project, reach(found - {one}, one.role))


@pytest.mark.parametrize(
    ("wanted", "allowed", "expected"),
    [
        (None, {EVERYWHERE}, "default"),
        (None, {"yard"}, "yard"),
        ("yard", {EVERYWHERE}, "yard"),
        ("yard", {"yard", "roof"}, "yard"),
        (None, {"yard", "roof"}, Refused),
        ("default", {"yard"}, WrongRole),
        ("nowhere", {"yard"}, WrongRole),
    ],
)
def test_something_new_goes_into_the_project_that_is_meant(
    wanted: str | None, allowed: set[str], expected: str | type[Exception]
) -> None:
    if isinstance(expected, str):
        assert choose_project(wanted, frozenset(allowed)) == expected
    else:
        with pytest.raises(expected):
            choose_project(wanted, frozenset(allowed))


def test_a_role_in_some_projects_is_none_in_all() -> None:
    with pytest.raises(WrongRole, match="counts in roof, yard"):
        check_within(EVERYWHERE, frozenset({"yard", "roof"}))
