"""Is a request with a cookie taken only from a page of this fleet?"""

import pytest
from shoal_fleet.access.csrf import Provenance, check_provenance, csrf_word
from shoal_fleet.errors import CrossSite

SECRET = "a secret of a session"
HOST = "fleet.example:8443"
HOME = f"https://{HOST}"


@pytest.mark.parametrize(
    ("fetch_site", "origin"),
    [("same-origin", HOME), ("same-origin", None), (None, HOME)],
)
def test_takes_what_both_checks_let_through(fetch_site: str | None, origin: str | None) -> None:
    check_provenance(Provenance(fetch_site, origin, HOST, csrf_word(SECRET)), secret=SECRET)


@pytest.mark.parametrize(
    ("fetch_site", "origin", "word"),
    [
        (None, None, "right"),
        ("cross-site", HOME, "right"),
        ("same-site", HOME, "right"),
        ("none", HOME, "right"),
        ("same-origin", "https://evil.example", "right"),
        ("same-origin", "null", "right"),
        ("same-origin", f"http://{HOST}", "right"),
        ("same-origin", f"{HOME}.evil.example", "right"),
        ("same-origin", HOME, None),
        ("same-origin", HOME, ""),
        ("same-origin", HOME, "of another session"),
        ("same-origin", HOME, "\N{SNOWMAN}"),
    ],
)
def test_refuses_what_either_check_stops(fetch_site: str | None, origin: str | None, word: str | None) -> None:
    given = {"right": csrf_word(SECRET), "of another session": csrf_word("another")}.get(word or "", word)
    with pytest.raises(CrossSite):
        check_provenance(Provenance(fetch_site, origin, HOST, given), secret=SECRET)


def test_the_word_does_not_give_the_secret_away() -> None:
    assert SECRET not in csrf_word(SECRET)
    assert csrf_word(SECRET) != csrf_word(SECRET + "x")
