"""Where does an update go from each of its states?

The table is the whole of it: no other module decides what follows. Every step may run twice, since power may go after
it acted and before the journal said so. `BOUNDS` says how often, and a row for EXHAUSTED where that ends.
"""

import enum
from typing import NamedTuple

from shoal_wire.update import UpdateState

PLANNING = UpdateState.PLANNING
FETCHING = UpdateState.FETCHING
VERIFYING = UpdateState.VERIFYING
CHECKING = UpdateState.CHECKING
SWITCHING = UpdateState.SWITCHING
PROBATION = UpdateState.PROBATION
COMMITTING = UpdateState.COMMITTING
FALLING_BACK = UpdateState.FALLING_BACK
REFUSING = UpdateState.REFUSING
COMMITTED = UpdateState.COMMITTED
FELL_BACK = UpdateState.FELL_BACK
REFUSED = UpdateState.REFUSED
SUPERSEDED = UpdateState.SUPERSEDED


class Outcome(enum.Enum):
    """How the step of a state ended."""

    DONE = "done"
    FAILED = "failed"
    """The release was refused, or didn't show what it had to."""
    EXHAUSTED = "exhausted"
    """Started too often, or tried for too long."""
    SUPERSEDED = "superseded"
    """A newer desired document is there."""


DONE, FAILED, EXHAUSTED, NEWER = Outcome.DONE, Outcome.FAILED, Outcome.EXHAUSTED, Outcome.SUPERSEDED

# fmt: off
TRANSITIONS: dict[tuple[UpdateState, Outcome], UpdateState] = {
    (PLANNING,     DONE):      FETCHING,
    (PLANNING,     FAILED):    REFUSING,
    (PLANNING,     EXHAUSTED): REFUSING,
    (PLANNING,     NEWER):     SUPERSEDED,
    (FETCHING,     DONE):      VERIFYING,
    (FETCHING,     FAILED):    REFUSING,
    (FETCHING,     EXHAUSTED): REFUSING,
    (FETCHING,     NEWER):     SUPERSEDED,
    (VERIFYING,    DONE):      CHECKING,
    (VERIFYING,    FAILED):    REFUSING,
    (VERIFYING,    EXHAUSTED): REFUSING,
    (VERIFYING,    NEWER):     SUPERSEDED,
    (CHECKING,     DONE):      SWITCHING,
    (CHECKING,     FAILED):    REFUSING,
    (CHECKING,     EXHAUSTED): REFUSING,
    (CHECKING,     NEWER):     SUPERSEDED,
    (SWITCHING,    DONE):      PROBATION,
    (SWITCHING,    FAILED):    FALLING_BACK,
    (SWITCHING,    EXHAUSTED): FALLING_BACK,
    (PROBATION,    DONE):      COMMITTING,
    (PROBATION,    FAILED):    FALLING_BACK,
    (PROBATION,    EXHAUSTED): FALLING_BACK,
    (COMMITTING,   DONE):      COMMITTED,
    (COMMITTING,   EXHAUSTED): COMMITTED,   # it serves and has shown that it may; only tidying up is left
    (FALLING_BACK, DONE):      FELL_BACK,
    (FALLING_BACK, EXHAUSTED): FELL_BACK,   # the slot is put right all the same: see run.py
    (REFUSING,     DONE):      REFUSED,
    (REFUSING,     EXHAUSTED): REFUSED,
}
# fmt: on


class Bound(NamedTuple):
    """How often, and in want of the network for how long, an update may stay in a state."""

    attempts: int
    """Starts that ended in no outcome: the updater, the board or its power died. A start that made progress, or that
    ended for want of the network, doesn't count."""
    deadline_s: float
    """After this long, want of the network is an outcome too, in the states that need it. Checked after an attempt has
    failed, so that a board whose clock jumps by years when it gets the time doesn't give up without one."""


_DAY_S = 86_400.0

BOUNDS: dict[UpdateState, Bound] = {
    PLANNING: Bound(5, 7 * _DAY_S),
    FETCHING: Bound(5, 30 * _DAY_S),
    VERIFYING: Bound(3, _DAY_S),
    CHECKING: Bound(3, _DAY_S),
    SWITCHING: Bound(3, _DAY_S),
    PROBATION: Bound(5, _DAY_S),
    COMMITTING: Bound(5, _DAY_S),
    FALLING_BACK: Bound(5, _DAY_S),
    REFUSING: Bound(5, _DAY_S),
}

SUPERSEDABLE = frozenset(state for state, outcome in TRANSITIONS if outcome is NEWER)
"""States in which nothing has been switched."""


def follow(state: UpdateState, outcome: Outcome) -> UpdateState:
    """The state after `state`.

    Raises:
        KeyError: the table has no such row; terminal states have none at all.
    """
    return TRANSITIONS[state, outcome]
