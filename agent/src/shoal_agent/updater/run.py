"""How does an update get from wherever its journal says it is to an end?

The journal is on the disk before each act: state entered, and start counted. What a step ended with is looked up in the
transition table. The daemon starts the updater again until the journal is terminal.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace
from shoal_wire.errors import WireError
from shoal_wire.messages import Desired
from shoal_wire.update import TERMINAL, UpdateState

from shoal_agent.slots import Journal, Slot
from shoal_agent.updater import agent_steps, revocation, slot_changes
from shoal_agent.updater.collect import collect
from shoal_agent.updater.errors import (
    Refused,
    Restarting,
    Superseded,
    TryLater,
    UnreadableJournal,
    Untrustworthy,
)
from shoal_agent.updater.steps import STEPS, Step
from shoal_agent.updater.tools import Tools
from shoal_agent.updater.transitions import BOUNDS, SUPERSEDABLE, Outcome, follow

MAX_REASON = 4000

OWED: dict[UpdateState, Callable[[Slot, Journal], Slot]] = {
    UpdateState.FALLING_BACK: slot_changes.fall_back,
    UpdateState.REFUSING: slot_changes.refuse,
}
"""What an update owes its slot even where the rest of a step can't be done: a bad release must not stay current."""


def run(tools: Tools) -> None:
    """Take up the journal, or plan a new one, and go on until it is terminal. Nothing to do is fine as well.

    Raises:
        TryLater: the daemon should start the updater again after a pause.
        BrokenInstallation: nothing can be done without a person.
    """
    try:
        journal = _open(tools)
    except UnreadableJournal as error:
        _give_up_journal(tools, reason=str(error))
        tools.daemon.done(UpdateState.UNKNOWN)
        return
    if journal is None:
        collect(tools.records)
        return
    try:
        while journal.state not in TERMINAL:
            journal = _advance(journal, tools)
    except Restarting:
        return
    tools.daemon.done(journal.state)


def refresh(tools: Tools) -> None:
    """Only renew metadata and assignment keys. Raises as `run` does."""
    before = tools.records.trust_report().trouble
    try:
        revocation.renew(tools)
    except Untrustworthy as error:
        if not before:  # said once, until it was well in between
            tools.daemon.event("metadata-refused", _cut(str(error)))
        raise


def _open(tools: Tools) -> Journal | None:
    """The journal to go on with; None when there is nothing to do."""
    journal = tools.records.journal()
    if journal is None or journal.state in TERMINAL:
        return _begin(tools, last=journal)
    return _take_up(journal, tools)


def _begin(tools: Tools, *, last: Journal | None) -> Journal | None:
    """A journal for the first release that the board should run and doesn't."""
    desired = _read_desired(tools)
    assignment = None if desired is None else tools.choose(desired, last)
    if desired is None or assignment is None:
        return None
    journal = Journal(
        epoch=desired.epoch,
        generation=desired.generation,
        assignment=assignment,
        state=UpdateState.PLANNING,
        attempts=1,
        entered_at=tools.now(),
    )
    tools.save(journal)
    return journal


def _take_up(journal: Journal, tools: Tools) -> Journal:
    """Count a start in the state that an earlier one ended in, or end there."""
    if journal.state in SUPERSEDABLE and _is_superseded(journal, tools):
        return _move(journal, Outcome.SUPERSEDED, tools, reason="a newer desired document came")
    if journal.attempts >= BOUNDS[journal.state].attempts:
        last = f"; at last: {journal.reason}" if journal.reason else ""
        reason = f"{journal.attempts} starts ended in the middle of {journal.state.value}{last}"
        owed = OWED.get(journal.state)
        if owed is not None:
            tools.change_slot(journal.assignment.release, lambda slot: owed(slot, journal))
        if journal.is_of_agent and journal.state is UpdateState.FALLING_BACK:
            agent_steps.go_back(journal, tools)
        return _move(journal, Outcome.EXHAUSTED, tools, reason=reason)
    journal = replace(journal, attempts=journal.attempts + 1)
    tools.save(journal)
    return journal


def _advance(journal: Journal, tools: Tools) -> Journal:
    """Do the step of the journal's state and enter the next one."""
    tools.daemon.may_be_superseded = journal.state in SUPERSEDABLE
    try:
        done = _steps(journal)[journal.state](journal, tools)
    except Superseded as error:
        return _move(_newest(journal, tools), Outcome.SUPERSEDED, tools, reason=str(error))
    except (Refused, WireError) as error:
        return _move(_newest(journal, tools), Outcome.FAILED, tools, reason=str(error))
    except TryLater as error:
        return _put_off(_newest(journal, tools), tools, error)
    except OSError as error:  # the disk: for whoever reads why there were too many starts
        tools.save(replace(_newest(journal, tools), reason=_cut(str(error))))
        raise
    has_reason = journal.state not in SUPERSEDABLE  # before the switch it only tells why there was a delay
    return _move(done, Outcome.DONE, tools, reason=done.reason if has_reason else "")


def _steps(journal: Journal) -> Mapping[UpdateState, Step]:
    return agent_steps.STEPS if journal.is_of_agent else STEPS


def _put_off(journal: Journal, tools: Tools, error: TryLater) -> Journal:
    """Note why the update has to wait, and end; a start that ends like this doesn't count as one too many."""
    waited_s = tools.now() - journal.entered_at
    if waited_s > BOUNDS[journal.state].deadline_s:
        reason = f"waited {waited_s / 3600:.0f} hours: {error}"
        return _move(journal, Outcome.EXHAUSTED, tools, reason=reason)
    if journal.reason != _cut(str(error)):
        tools.daemon.event("update-delayed", _cut(str(error)))
    tools.save(replace(journal, attempts=0, reason=_cut(str(error))))
    raise error


def _move(journal: Journal, outcome: Outcome, tools: Tools, *, reason: str) -> Journal:
    """Enter the state that the table names. News of an end goes out before the journal says that it is one."""
    state = follow(journal.state, outcome)
    moved = replace(journal, state=state, attempts=1, entered_at=tools.now(), reason=_cut(reason))
    if state in TERMINAL:
        tools.daemon.event(f"update-{state.value}", moved.reason)
    tools.save(moved)
    return moved


def _give_up_journal(tools: Tools, *, reason: str) -> None:
    """Keep a damaged journal aside. What serves goes on; the generation is reported as unknown, and not tried again."""
    tools.daemon.event("update-unknown", _cut(reason))
    desired = _read_desired(tools)
    tools.records.keep_unreadable_journal()
    if desired is None or not desired.assignments:
        tools.records.remove_journal()
        return
    assignment = tools.choose(desired, None) or desired.assignments[0]
    tools.save(
        Journal(
            epoch=desired.epoch,
            generation=desired.generation,
            assignment=assignment,
            state=UpdateState.UNKNOWN,
            reason=_cut(reason),
            entered_at=tools.now(),
        )
    )


def _read_desired(tools: Tools) -> Desired | None:
    """The desired document, by assignment keys that are renewed if those known don't fit.

    Raises:
        TryLater: still not signed by a key that counts. Whose it is can't be told, so no generation is refused for it.
    """
    try:
        return tools.trust.desired()
    except WireError:
        revocation.renew(tools)
    try:
        return tools.trust.desired()
    except WireError as error:
        tools.daemon.event("desired-refused", _cut(str(error)))
        raise TryLater(str(error)) from error


def _is_superseded(journal: Journal, tools: Tools) -> bool:
    try:
        desired = tools.trust.desired()
    except WireError:
        return False
    return desired is not None and desired.order > (journal.epoch, journal.generation)


def _newest(journal: Journal, tools: Tools) -> Journal:
    """The journal with the progress that a step has written since."""
    return tools.records.journal() or journal


def _cut(reason: str) -> str:
    return reason[:MAX_REASON]
