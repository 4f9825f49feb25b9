"""Is a spare worker kept only where it is wanted and there is room for it?"""

from shoal_agent.front.admission import Peak
from shoal_agent.front.spare import REFUSED_PAUSE_S, Spare
from shoal_agent.front.worker import Worker
from shoal_worker.errors import EngineMissing

SMALL = Peak(1, is_measured=True)
MORE_MEMORY_THAN_ANY_BOARD = Peak(1 << 49, is_measured=True)


class BrokenRecipe:
    engine = "broken"

    def __init__(self) -> None:
        self.starts = 0

    def start(self, *, timeout_s: float, is_beside: bool) -> Worker:
        self.starts += 1
        raise EngineMissing("it isn't there")


def test_spare_that_does_not_fit_is_refused_once_with_both_numbers() -> None:
    notices: list[tuple[str, str]] = []
    spare, recipe = Spare(notice=lambda name, detail: notices.append((name, detail))), BrokenRecipe()
    for now in (0.0, REFUSED_PAUSE_S):
        assert spare.is_due(recipe, now=now)
        spare.start(recipe, needed=MORE_MEMORY_THAN_ANY_BOARD, now=now)
        assert not spare.is_due(recipe, now=now + REFUSED_PAUSE_S - 1)
    ((name, detail),) = notices
    assert name == "spare-refused" and "562949953 MB (measured)" in detail and "are available on the board" in detail
    assert recipe.starts == 0 and spare.take(recipe) is None


def test_spare_that_cannot_be_started_is_tried_again_later() -> None:
    notices: list[tuple[str, str]] = []
    spare, recipe = Spare(notice=lambda name, detail: notices.append((name, detail))), BrokenRecipe()
    assert spare.is_due(recipe, now=0)
    spare.start(recipe, needed=SMALL, now=0)
    assert notices == [("spare-refused", "a spare worker (broken) it isn't there")]
    assert not spare.is_due(recipe, now=REFUSED_PAUSE_S - 1) and spare.is_due(recipe, now=REFUSED_PAUSE_S)


def test_spare_is_due_once_until_it_was_tried() -> None:
    spare, recipe = Spare(notice=lambda name, detail: None), BrokenRecipe()
    assert spare.is_due(recipe, now=0) and not spare.is_due(recipe, now=0)
    spare.rest()
    spare.start(recipe, needed=SMALL, now=0)
    assert recipe.starts == 0 and spare.is_due(recipe, now=0)


def test_closed_spare_is_never_due() -> None:
    spare, recipe = Spare(notice=lambda name, detail: None), BrokenRecipe()
    assert spare.is_due(recipe, now=0)
    spare.close()
    spare.start(recipe, needed=SMALL, now=0)
    assert recipe.starts == 0 and not spare.is_due(recipe, now=REFUSED_PAUSE_S)
