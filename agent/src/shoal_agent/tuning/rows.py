"""How is a verdict told to the fleet?"""

from shoal_wire.messages import ReleaseReference, Tuned
from shoal_wire.tuning import MAX_MEASURED, BoardKind, Candidate, MeasuredCandidate

from shoal_agent.tuned import Conditions, Measured, Verdict
from shoal_agent.tuning.verdicts import version_of


def make_row(
    verdict: Verdict, *, chosen: Candidate, reference: ReleaseReference, board: BoardKind, is_confirmed: bool
) -> Tuned:
    """The row of a verdict that chose `chosen`. Of many figures the best are told, the choice's always."""
    told = verdict.measured[:MAX_MEASURED]
    if chosen not in [one.candidate for one in told]:
        told = (*told[:-1], next(one for one in verdict.measured if one.candidate == chosen))
    return Tuned(
        at=verdict.at,
        board=board,
        model=verdict.model,
        reference=reference,
        objective=verdict.conditions.objective,
        choice=chosen,
        files=verdict.conditions.variants[chosen.variant],
        measured=tuple(_figures(one, verdict.conditions) for one in told),
        is_settled=verdict.is_settled,
        is_confirmed=is_confirmed,
    )


def _figures(measured: Measured, conditions: Conditions) -> MeasuredCandidate:
    return MeasuredCandidate(
        candidate=measured.candidate,
        engine_version=version_of(measured.candidate.engine, conditions=conditions),
        p50_ms=measured.p50_ms,
        p95_ms=measured.p95_ms,
        answers_per_s=measured.answers_per_s,
        peak_bytes=measured.peak_bytes,
        load_ms=measured.load_ms,
        joules=measured.joules,
        placement=measured.placement,
    )
