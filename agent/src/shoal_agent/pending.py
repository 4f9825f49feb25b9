"""Which release should this device run, and doesn't yet? A rule that daemon and updater must agree on."""

from shoal_wire.agent_release import AGENT_RELEASE
from shoal_wire.messages import Assignment, Desired
from shoal_wire.update import UpdateState

from shoal_agent.slots import Journal, Slot, Slots


def choose_assignment(desired: Desired, slots: Slots, last: Journal | None, *, own: Slot) -> Assignment | None:
    """The first release that the board should run and doesn't; None when there is nothing to do.

    That of the agent goes first, since a model's may need a newer agent; `own` is its slot. A generation that was
    refused for a slot isn't tried there again; one whose journal (`last`) ended as unknown isn't tried at all.
    """
    if last is not None and last.state is UpdateState.UNKNOWN and (last.epoch, last.generation) == desired.order:
        return None
    for assignment in sorted(desired.assignments, key=lambda one: one.release != AGENT_RELEASE):
        is_own = assignment.release == AGENT_RELEASE
        slot = own if is_own else slots.slots.get(assignment.release, Slot())
        is_current = slot.current is not None and slot.current.reference.manifest_sha256 == assignment.manifest_sha256
        if not is_current and desired.order not in slot.refused:
            return assignment
    return None
