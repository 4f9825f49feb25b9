"""How does a verdict look in a terminal?"""

from collections.abc import Sequence

from shoal_wire.tuning import Candidate

from shoal_agent.tuned import Measured, Verdict

HEADINGS = (
    "",
    "variant",
    "engine",
    "runs on",
    "precision",
    "threads",
    "batch",
    "p50 ms",
    "p95 ms",
    "answers/s",
    "MB",
    "load ms",
    "J",
)
LEGEND = "* chosen   + no other is better in everything   rounds after which a candidate was dropped in brackets"


def write_verdict(verdict: Verdict) -> str:
    """The verdict as a table and lines for a person."""
    rows = [HEADINGS, *(_row(one, verdict) for one in verdict.measured)]
    lines = _align(rows) if verdict.measured else []
    lines += [f"refused  {one.candidate}: {one.reason}" for one in verdict.refused]
    if verdict.measured:
        lines.append(LEGEND)
    settled = (
        "nobody is expected to pass the leader"
        if verdict.is_settled
        else "the budget ended while others might still pass"
    )
    lines.append(f"measured in {verdict.took_s:.0f} of {verdict.budget_s:g} s: {settled}")
    lines.append(f"energy   {verdict.meter or 'this board has no meter that can be read'}")
    lines.append(f"choice   {verdict.choice.candidate or 'none'}: {verdict.choice.why}")
    return "\n".join(lines)


def _row(measured: Measured, verdict: Verdict) -> tuple[str, ...]:
    one = measured.candidate
    return (
        _mark(one, verdict) + ("" if measured.is_finalist else f"({measured.rounds})"),
        one.variant,
        one.engine,
        "+".join(measured.placement) or one.device or "-",
        one.precision,
        str(one.threads),
        str(one.batch),
        f"{measured.p50_ms:.2f}",
        f"{measured.p95_ms:.2f}",
        f"{measured.answers_per_s:.2f}",
        f"{measured.peak_bytes / 1e6:.0f}",
        f"{measured.load_ms:.0f}",
        "-" if measured.joules is None else f"{measured.joules:.3g}",
    )


def _mark(candidate: Candidate, verdict: Verdict) -> str:
    if candidate == verdict.choice.candidate:
        return "*"
    return "+" if candidate in verdict.pareto else ""


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
