"""How does a verdict look as a picture?

An SVG file that needs nothing else: p50 latency against peak memory, a dot for each candidate, and a line through those
that no other beats in both.
"""

from collections.abc import Callable, Sequence
from html import escape

from shoal_agent.tuned import Measured, Verdict

WIDTH, HEIGHT = 760, 480
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 50, 60
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart by the colour-blind too (Okabe and Ito, "Color Universal Design")."""
TICKS = 5
FONT = 'font-family="sans-serif" font-size="12"'

Place = Callable[[float], float]


def draw_verdict(verdict: Verdict) -> str:
    """The text of the file."""
    measured = verdict.measured
    x = _scale([one.p50_ms for one in measured], start=LEFT, end=WIDTH - RIGHT)
    y = _scale([one.peak_bytes / 1e6 for one in measured], start=HEIGHT - BOTTOM, end=TOP)
    engines = sorted({one.candidate.engine for one in measured})
    colours = {engine: COLOURS[number % len(COLOURS)] for number, engine in enumerate(engines)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {FONT}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(_title(verdict))}</text>',
        *_axes(measured, x=x, y=y),
        _line(frontier(measured), x=x, y=y),
        *(_dot(one, verdict, x=x, y=y, colour=colours[one.candidate.engine]) for one in measured),
        *_legend(colours),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def frontier(measured: Sequence[Measured]) -> list[Measured]:
    """Those that no other beats in p50 latency and peak memory at once, the fastest first."""
    line: list[Measured] = []
    for one in sorted(measured, key=lambda one: (one.p50_ms, one.peak_bytes)):
        if not line or one.peak_bytes < line[-1].peak_bytes:
            line.append(one)
    return line


def _title(verdict: Verdict) -> str:
    return f"{verdict.model} on {verdict.conditions.processor}: {verdict.choice.candidate or 'no choice'}"


def _scale(values: Sequence[float], *, start: float, end: float) -> Place:
    """Positions of values from 0 to a little more than the largest."""
    largest = max(values, default=0.0) * 1.05 or 1.0
    return lambda value: start + (end - start) * value / largest


def _axes(measured: Sequence[Measured], *, x: Place, y: Place) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [f'<path d="M{LEFT} {TOP}V{bottom}H{right}" fill="none" stroke="#444"/>']
    most_ms = max((one.p50_ms for one in measured), default=1.0)
    most_mb = max((one.peak_bytes / 1e6 for one in measured), default=1.0)
    for number in range(TICKS + 1):
        ms, mb = most_ms * number / TICKS, most_mb * number / TICKS
        parts.append(f'<text x="{x(ms):.1f}" y="{bottom + 18}" text-anchor="middle">{ms:.3g}</text>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(mb) + 4:.1f}" text-anchor="end">{mb:.0f}</text>')
    parts.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 15}" text-anchor="middle">p50 latency, ms</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 12}" text-anchor="middle">peak memory, MB</text>')
    return parts


def _line(line: Sequence[Measured], *, x: Place, y: Place) -> str:
    points = " ".join(f"{x(one.p50_ms):.1f},{y(one.peak_bytes / 1e6):.1f}" for one in line)
    return f'<polyline points="{points}" fill="none" stroke="#888" stroke-dasharray="4 3"/>'


def _dot(one: Measured, verdict: Verdict, *, x: Place, y: Place, colour: str) -> str:
    is_chosen = one.candidate == verdict.choice.candidate
    ring = ' stroke="black" stroke-width="2"' if is_chosen else ""
    words = (
        f"{one.candidate}: p50 {one.p50_ms:.2f} ms, {one.peak_bytes / 1e6:.0f} MB, {one.answers_per_s:.2f} answers/s"
    )
    return (
        f'<circle cx="{x(one.p50_ms):.1f}" cy="{y(one.peak_bytes / 1e6):.1f}" r="{7 if is_chosen else 5}" '
        f'fill="{colour}"{ring}><title>{escape(words)}</title></circle>'
    )


def _legend(colours: dict[str, str]) -> list[str]:
    parts = []
    for number, (engine, colour) in enumerate(colours.items()):
        place = TOP + 16 * number
        parts.append(f'<circle cx="{WIDTH - 125}" cy="{place}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{WIDTH - 112}" y="{place + 4}">{escape(engine)}</text>')
    return parts
