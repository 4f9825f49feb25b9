"""Which variants does no other beat, and how does that look?

Three figures count: the task's metric, the least p50 latency, the size. The plot shows the first two by place and the
third by the area of a point.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from shoal_converters.gains import best_speed
from shoal_converters.report.figures import write_figure, write_size, write_value
from shoal_converters.report.markup import Markup, element, join
from shoal_converters.report.results import Report

WIDTH, HEIGHT = 680, 400
LEFT, RIGHT, TOP, BOTTOM = 66, 20, 18, 54
LARGEST_RADIUS, LEAST_RADIUS = 17.0, 4.5
CHARACTER, LINE = 7.8, 15.0
"""Width and height that a letter of a label takes, about, in pixels."""
FARTHEST_LINES = 8
DEPTH = 4.0
"""Budgets below the original down to which the scale goes; what lies deeper stands at the lower edge."""
LEAST_SPAN = 0.01
LOGARITHMIC = 4.0
"""Ratio of the largest to the least latency from which the scale is logarithmic."""

Place = Callable[[float], float]


class Point(NamedTuple):
    """A variant that was both judged and timed."""

    name: str
    kind: str
    """Its format."""
    value: float
    p50_ms: float
    size_bytes: int
    is_released: bool


class _Box(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: "_Box") -> float:
        """Area that both have."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(0.0, width) * max(0.0, height)


def list_points(report: Report) -> tuple[Point, ...]:
    """The variants that have an accuracy and a speed."""
    points = []
    for one in report.variants:
        fastest = best_speed(one.speeds)
        if fastest is not None and one.value is not None and math.isfinite(one.value):
            points.append(Point(one.name, one.format, one.value, fastest.p50_ms, one.size_bytes, one.is_released))
    return tuple(points)


def dominates(one: Point, other: Point) -> bool:
    """Whether `one` is as good as `other` in every figure, and better in some."""
    costs = [(-one.value, -other.value), (one.p50_ms, other.p50_ms), (one.size_bytes, other.size_bytes)]
    return all(a <= b for a, b in costs) and any(a < b for a, b in costs)


def pareto_set(points: Sequence[Point]) -> tuple[Point, ...]:
    """Those that no other dominates, in the order given."""
    return tuple(one for one in points if not any(dominates(other, one) for other in points))


def draw_pareto(report: Report, *, kinds: Sequence[str]) -> Markup:
    """An inline SVG. `kinds`: all formats, in the order of their colours; classes of the style sheet colour it."""
    points = list_points(report)
    x, x_ticks = _latency_scale([one.p50_ms for one in points])
    y, y_ticks = _value_scale(points, report)
    best = pareto_set(points)
    largest = max(one.size_bytes for one in points)
    radii = {one.name: max(LEAST_RADIUS, LARGEST_RADIUS * math.sqrt(one.size_bytes / largest)) for one in points}
    dots = [
        _dot(one, x=x, y=y, radius=radii[one.name], colour=kinds.index(one.kind), is_best=one in best) for one in points
    ]
    return element(
        "svg",
        element("title", "Accuracy against latency of each variant"),
        element("desc", "; ".join(map(_describe, points))),
        *_grid(x, x_ticks, y, y_ticks, metric=report.metric),
        *_lines(report, y=y),
        *dots,
        *_labels(points, report, x=x, y=y, radii=radii, best=best),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="plot",
    )


def _latency_scale(values: Sequence[float]) -> tuple[Place, list[float]]:
    low, high = min(values), max(values)
    if high / max(low, 1e-9) < LOGARITHMIC:
        span = high * 1.15 or 1.0
        return (lambda ms: LEFT + (WIDTH - LEFT - RIGHT) * ms / span), _ticks(0.0, span)
    low, high = low / 1.5, high * 1.5
    per = (WIDTH - LEFT - RIGHT) / math.log(high / low)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**exponent for exponent in exponents for step in (1, 2, 5)]
    return (lambda ms: LEFT + per * math.log(ms / low)), [tick for tick in ticks if low <= tick <= high]


def _value_scale(points: Sequence[Point], report: Report) -> tuple[Place, list[float]]:
    """Worse than DEPTH budgets below the original is shown at the lower edge."""
    original = report.original.value if report.original.value is not None else max(one.value for one in points)
    unit = max(report.max_drop, LEAST_SPAN / 2)
    floor = original - DEPTH * unit
    values = [max(one.value, floor) for one in points] + [original, original - report.max_drop]
    low, high = min(values), max(values)
    low, high = low - 0.35 * unit, high + 0.6 * unit
    height = HEIGHT - TOP - BOTTOM
    return (lambda value: TOP + height * (high - max(low, value)) / (high - low)), _ticks(low, high)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, four to nine of them."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= rough * 0.75)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _grid(x: Place, x_ticks: Sequence[float], y: Place, y_ticks: Sequence[float], *, metric: str) -> list[Markup]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [element("path", d=f"M{x(tick):.1f} {TOP}V{bottom}", class_="grid") for tick in x_ticks]
    parts += [element("path", d=f"M{LEFT} {y(tick):.1f}H{right}", class_="grid") for tick in y_ticks]
    parts += [element("text", f"{tick:g}", x=x(tick), y=bottom + 18, text_anchor="middle") for tick in x_ticks]
    digits = max(2, -math.floor(math.log10(y_ticks[1] - y_ticks[0]))) if len(y_ticks) > 1 else 4
    parts += [element("text", f"{tick:.{digits}f}", x=LEFT - 8, y=y(tick) + 4, text_anchor="end") for tick in y_ticks]
    parts.append(element("path", d=f"M{LEFT} {TOP}V{bottom}H{right}", class_="axis"))
    middle = (TOP + bottom) / 2
    parts.append(
        element(
            "text", metric, transform=f"translate(14 {middle:.0f}) rotate(-90)", text_anchor="middle", class_="name"
        )
    )
    name = "p50 latency of its best setting, ms (better to the left)"
    parts.append(element("text", name, x=(LEFT + right) / 2, y=HEIGHT - 10, text_anchor="middle", class_="name"))
    return parts


def _lines(report: Report, *, y: Place) -> list[Markup]:
    """Where the original is, and how far the budget goes."""
    if report.original.value is None:
        return []
    right = WIDTH - RIGHT
    top, end = y(report.original.value), y(report.original.value - report.max_drop)
    return [
        element("rect", x=LEFT, y=end, width=right - LEFT, height=max(0.0, HEIGHT - BOTTOM - end), class_="beyond"),
        element("path", d=f"M{LEFT} {top:.1f}H{right}", class_="original"),
        element("text", "original", x=right - 4, y=top - 5, text_anchor="end", class_="line-name"),
        element("path", d=f"M{LEFT} {end:.1f}H{right}", class_="budget"),
        element(
            "text",
            f"budget: at most {report.max_drop:g} lost",
            x=right - 4,
            y=end + 14,
            text_anchor="end",
            class_="line-name",
        ),
    ]


def _dot(one: Point, *, x: Place, y: Place, radius: float, colour: int, is_best: bool) -> Markup:
    classes = f"dot kind-{colour}" + (" best" if is_best else "") + ("" if one.is_released else " dropped")
    return element(
        "g",
        element("title", _describe(one)),
        element("circle", cx=x(one.p50_ms), cy=y(one.value), r=radius),
        class_=classes,
    )


def _labels(
    points: Sequence[Point], report: Report, *, x: Place, y: Place, radii: dict[str, float], best: Sequence[Point]
) -> list[Markup]:
    """Beside their points, each where it hides least of the points and of the labels before it."""
    taken = [_around(x(one.p50_ms), y(one.value), radii[one.name]) for one in points]
    taken += _line_boxes(report, y=y)
    parts = []
    for one in sorted(points, key=lambda one: (one not in best, one.p50_ms)):
        deep = y(one.value) >= HEIGHT - BOTTOM - 0.5
        words = one.name + (" ★" if one in best else "") + (f" ↓ {write_value(one.value)}" if deep else "")
        places = _places(x(one.p50_ms), y(one.value), radii[one.name] + 3, CHARACTER * len(words))
        box = min(places, key=lambda place: _hidden(place, taken))
        taken.append(box)
        parts.append(
            element(
                "text",
                words,
                x=box.left,
                y=box.bottom - 4,
                class_="label" if one.is_released else "label dropped",
            )
        )
    return parts


def _line_boxes(report: Report, *, y: Place) -> list[_Box]:
    """The two lines, and their names at the right end."""
    if report.original.value is None:
        return []
    top, end = y(report.original.value), y(report.original.value - report.max_drop)
    right = WIDTH - RIGHT
    boxes = [_Box(LEFT, place - 3, right, place + 3) for place in (top, end)]
    return [*boxes, _Box(right - 60, top - 18, right, top), _Box(right - 170, end, right, end + 18)]


def _around(x: float, y: float, radius: float) -> _Box:
    return _Box(x - radius, y - radius, x + radius, y + radius)


def _places(x: float, y: float, gap: float, width: float) -> list[_Box]:
    """Where a label may stand, the best place first."""
    corners = [
        (x + gap, y - LINE / 2),
        (x - gap - width, y - LINE / 2),
        (x - width / 2, y - gap - LINE),
        (x - width / 2, y + gap),
        (x + gap * 0.7, y - gap * 0.7 - LINE),
        (x + gap * 0.7, y + gap * 0.7),
        (x - gap * 0.7 - width, y - gap * 0.7 - LINE),
        (x - gap * 0.7 - width, y + gap * 0.7),
    ]
    for lines in range(2, FARTHEST_LINES):
        corners += [(x - width / 2, y - gap - lines * LINE), (x - width / 2, y + gap + (lines - 1) * LINE)]
    return [_Box(left, top, left + width, top + LINE) for left, top in corners]


def _hidden(place: _Box, taken: Sequence[_Box]) -> float:
    """How bad a place is: what it covers, and far more what of it lies outside of the plot."""
    plot = _Box(LEFT, 0.0, float(WIDTH), float(HEIGHT - BOTTOM))
    area = (place.right - place.left) * (place.bottom - place.top)
    return 10 * (area - place.overlap(plot)) + sum(place.overlap(other) for other in taken)


def _describe(one: Point) -> str:
    return f"{one.name}: {write_value(one.value)}, p50 {write_figure(one.p50_ms)} ms, {write_size(one.size_bytes)}"


def draw_legend(kinds: Sequence[str]) -> Markup:
    """What the colours stand for."""
    return join(
        [
            element("span", element("span", class_=f"swatch kind-{number}", aria_hidden="true"), kind, class_="key")
            for number, kind in enumerate(kinds)
        ]
    )
