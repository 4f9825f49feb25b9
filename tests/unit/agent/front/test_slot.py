"""Which load of a release serves when it was loaded twice?"""

from typing import cast

from shoal_agent.front.serving_model import Counts, ServingModel
from shoal_agent.front.slot import LoadedRelease, ServingSlot
from shoal_agent.front_messages import Load
from shoal_agent.slots import HeldRelease
from shoal_wire.messages import ReleaseReference

DIGEST = "1" * 64
HELD = HeldRelease(reference=ReleaseReference("notes", 1, DIGEST), epoch=1, generation=1, variant="only", grants=())


class FakeWorkers:
    """Workers of which there are no spare ones."""

    def rest(self) -> None:
        """Nothing to do."""


class FakeModel:
    """A model that only counts."""

    def __init__(self) -> None:
        self.counts = Counts(answers=7)
        self.workers = FakeWorkers()


def load(number: int) -> LoadedRelease:
    models = {"notes": cast(ServingModel, FakeModel())}
    return LoadedRelease(Load("notes", HELD, "", {}), models, number=number, ways=())


def test_load_that_takes_an_earlier_ones_place_hands_it_to_whoever_closes_it() -> None:
    slot, first, second = ServingSlot(), load(1), load(2)
    assert slot.flip(first) is None
    assert slot.flip(second) is first
    assert slot.current() is slot.find(DIGEST) is second
    assert slot.flip(second) is None


def test_counts_begin_anew_with_each_load() -> None:
    slot, loaded = ServingSlot(), load(1)
    slot.flip(loaded)
    assert loaded.first.counts.answers == 0


def test_end_of_an_earlier_load_leaves_the_one_that_serves() -> None:
    slot, first, second = ServingSlot(), load(1), load(2)
    slot.flip(first)
    slot.flip(second)
    assert slot.withdraw(DIGEST, number=1) is None and slot.current() is second
    assert slot.withdraw(DIGEST, number=2) is second and slot.current() is None
    assert slot.withdraw(DIGEST) is None
