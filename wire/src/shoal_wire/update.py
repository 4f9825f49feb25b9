"""Which states does an update pass through, as device, fleet and operator name them?"""

import enum


class UpdateState(enum.Enum):
    """A state of the device's journal. The transition table is the updater's."""

    PLANNING = "planning"
    FETCHING = "fetching"
    VERIFYING = "verifying"
    CHECKING = "checking"
    SWITCHING = "switching"
    PROBATION = "probation"
    COMMITTING = "committing"
    FALLING_BACK = "falling-back"
    REFUSING = "refusing"
    COMMITTED = "committed"
    FELL_BACK = "fell-back"
    REFUSED = "refused"
    SUPERSEDED = "superseded"
    """A newer desired document came before anything was switched."""
    UNKNOWN = "unknown"
    """The journal can't be read: neither good nor bad, and the current slot is kept."""


TERMINAL = frozenset(
    {UpdateState.COMMITTED, UpdateState.FELL_BACK, UpdateState.REFUSED, UpdateState.SUPERSEDED, UpdateState.UNKNOWN}
)
FAILED = frozenset({UpdateState.FELL_BACK, UpdateState.REFUSED, UpdateState.UNKNOWN})
"""Ended, and not well: a rollout counts them against the release, and people should look at the last one."""
