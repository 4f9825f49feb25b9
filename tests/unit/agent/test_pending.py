"""Which release does a board go to next, and which does it never try again?"""

from shoal_agent.pending import choose_assignment
from shoal_agent.slots import Slot, Slots
from shoal_wire.update import UpdateState

from tests.unit.agent.updater.releases import NAME, assignment, desired, journal, slot


def test_first_assignment_that_differs_is_chosen() -> None:
    slots = Slots(slots={NAME: slot(1)})
    other = assignment(5, name="bird-sounds")
    assert choose_assignment(desired(3, assignment(1), other), slots, None, own=Slot()) == other


def test_nothing_is_chosen_when_all_is_as_desired() -> None:
    assert choose_assignment(desired(3, assignment(1)), Slots(slots={NAME: slot(1)}), None, own=Slot()) is None
    assert choose_assignment(desired(3), Slots(), None, own=Slot()) is None


def test_refused_generation_is_not_chosen_again_and_the_next_one_is() -> None:
    slots = Slots(slots={NAME: slot(1, None, (1, 3))})
    assert choose_assignment(desired(3, assignment(2)), slots, None, own=Slot()) is None
    assert choose_assignment(desired(4, assignment(2)), slots, None, own=Slot()) == assignment(2)


def test_generation_whose_journal_was_unreadable_is_not_chosen_again() -> None:
    unknown = journal(2, generation=3, state=UpdateState.UNKNOWN)
    assert choose_assignment(desired(3, assignment(2)), Slots(), unknown, own=Slot()) is None
    assert choose_assignment(desired(4, assignment(2)), Slots(), unknown, own=Slot()) == assignment(2)


def test_superseded_release_is_chosen_again_in_a_new_generation() -> None:
    superseded = journal(2, generation=3, state=UpdateState.SUPERSEDED)
    assert choose_assignment(desired(4, assignment(2)), Slots(), superseded, own=Slot()) == assignment(2)


def test_empty_slot_takes_any_assignment() -> None:
    assert choose_assignment(desired(1, assignment(1)), Slots(slots={NAME: Slot()}), None, own=Slot()) == assignment(1)
