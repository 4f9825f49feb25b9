"""What is loaded when what is wanted can't serve?"""

from shoal_agent.daemon.wanted_slot import WantedSlot
from shoal_agent.front_messages import Serving
from shoal_agent.slots import HeldRelease
from shoal_wire.messages import ReleaseReference


def held(version: int) -> HeldRelease:
    reference = ReleaseReference("notes", version, f"{version}" * 64)
    return HeldRelease(reference=reference, epoch=1, generation=version, variant="only", grants=())


ONE, TWO = held(1), held(2)


def wanting(*, previous: HeldRelease | None = ONE) -> WantedSlot:
    slot = WantedSlot()
    slot.want(TWO, previous=previous)
    return slot


def serve(slot: WantedSlot, release: HeldRelease) -> None:
    slot.note_serving(Serving(slot="notes", reference=release.reference))


def test_previous_release_stands_in_for_one_that_failed() -> None:
    slot = wanting()
    assert slot.target == TWO
    slot.failure = "died too often"
    assert slot.target == ONE
    slot.is_loading = True
    serve(slot, ONE)
    assert not slot.is_serving and not slot.is_loading and slot.failure


def test_first_release_has_nothing_that_stands_in() -> None:
    slot = wanting(previous=None)
    slot.failure = "died too often"
    assert slot.target == TWO


def test_failure_ends_when_what_is_wanted_serves_or_something_else_is_wanted() -> None:
    slot = wanting()
    slot.failure = "died too often"
    serve(slot, TWO)
    assert slot.is_serving and not slot.failure
    slot.failure = "died too often"
    assert slot.want(ONE, previous=None) and not slot.failure and slot.target == ONE


def test_same_wish_changes_nothing_that_was_counted() -> None:
    slot = wanting()
    slot.deaths = 1
    assert not slot.want(TWO, previous=None)
    assert slot.deaths == 1


def test_front_that_ends_counts_and_is_told_from_one_that_ended_over_a_load() -> None:
    slot = wanting()
    slot.is_loading = True
    assert slot.note_front_end() and (slot.deaths, slot.deaths_in_load) == (1, 1)
    serve(slot, TWO)
    assert not slot.note_front_end() and (slot.deaths, slot.deaths_in_load) == (2, 0)
    assert slot.serving is None
