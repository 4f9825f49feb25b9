"""Is what other boards of this kind found out good here too? Rules only.

The known candidate runs beside what would serve if nothing had been measured. That tells a board that is of another
kind after all, or an engine that is broken or slow here, from one where the known choice may be taken as it is; it
doesn't say that nothing else is better.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from shoal_wire.tuning import Candidate, KnownChoice, Objective

from shoal_agent.tuned import Choice, Measured
from shoal_agent.tuning.material import Material
from shoal_agent.tuning.rules import COST, MARGIN, WORDS

CHECK_S = 20.0
"""Time for both at most. It ends sooner where the two can soon be told apart."""
KNOWN_FOR: Objective = "latency"
"""The objective that the fleet collects choices for (docs/protocol.md)."""


class Trial(NamedTuple):
    """What a short check compares."""

    known: KnownChoice
    rival: Candidate | None
    """What would serve without any measurement; None where that is the known one."""

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The known one first."""
        return (self.known.candidate, *([self.rival] if self.rival else []))


def plan_trial(
    known: Sequence[KnownChoice],
    material: Material,
    *,
    candidates: Sequence[Candidate],
    threads: int,
    objective: Objective,
) -> Trial | None:
    """The short check that takes the place of a whole search; None where nothing is known that could run here.

    `candidates`: all that this board could try, in the order in which they would serve; `threads`: its budget.
    """
    if objective != KNOWN_FOR:
        return None
    here = [one for one in candidates if not material.lacks(one.variant)]
    for choice in known:
        one = choice.candidate
        if choice.model != material.model.name or one not in here or material.files_of(one.variant) != choice.files:
            continue
        rival = msgspec.structs.replace(here[0], precision="exact", threads=threads, batch=1, device="")
        return Trial(choice, None if rival == one else rival)
    return None


def confirm(trial: Trial, measured: Sequence[Measured], *, objective: Objective) -> Choice:
    """The known candidate with the reason why it is taken; none, and why it isn't.

    The other one may be better by MARGIN: so much differs between two boards of a kind and from one day to the next.
    """
    figures = {one.candidate: one for one in measured}
    own = figures.get(trial.known.candidate)
    if own is None:
        return Choice(candidate=None, why=f"{trial.known.candidate}, known from other boards, can't serve here")
    words = f"known from {trial.known.boards} boards of this kind and checked here: {WORDS[objective](own)}"
    rival = figures.get(trial.rival) if trial.rival else None
    if rival is None:
        return Choice(candidate=own.candidate, why=words)
    words += f", where {rival.candidate} has {WORDS[objective](rival)}"
    limit = COST[objective](rival) + abs(COST[objective](rival)) * MARGIN
    return Choice(candidate=own.candidate if COST[objective](own) <= limit else None, why=words)
