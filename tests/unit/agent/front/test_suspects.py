"""Is an item run no more once two workers died of it, whoever counted the first?"""

from shoal_agent.front.suspects import Suspects


def test_second_death_quarantines() -> None:
    suspects = Suspects({})
    suspects.note("a")
    assert not suspects.is_quarantined("a")
    suspects.note("a")
    assert suspects.is_quarantined("a") and not suspects.is_quarantined("b")


def test_deaths_of_an_earlier_front_count() -> None:
    suspects = Suspects({"a": 1, "b": 2})
    suspects.note("a")
    assert suspects.is_quarantined("a") and suspects.is_quarantined("b")
