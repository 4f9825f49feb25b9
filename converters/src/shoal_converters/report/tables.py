"""How is a table written that can be read on a phone and heard through a screen reader?

On a narrow screen its style shows each row as a card, with the heading before every cell. The roles keep it a table
there, which other values of `display` would end.
"""

import math
from collections.abc import Sequence

from shoal_converters.report.figures import write_signed
from shoal_converters.report.markup import Markup, element
from shoal_converters.report.results import Interval

STRIP = (132.0, 18.0)
"""Width and height of a strip in pixels."""


def table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Sequence[int] = ()
) -> Markup:
    """The first cell of each row is its heading; `numbers` are the places of columns that are set to the right."""
    head = element(
        "tr",
        *(
            element("th", name, scope="col", role="columnheader", class_="number" if place in numbers else False)
            for place, name in enumerate(headings)
        ),
        role="row",
    )
    return element(
        "table",
        element("caption", caption),
        element("thead", head, role="rowgroup"),
        element("tbody", *(_row(cells, headings, numbers=numbers) for cells in rows), role="rowgroup"),
        role="table",
    )


def lines(first: str, *others: str) -> Markup:
    """A cell with smaller lines below the first; empty ones are left out."""
    below = [element("span", other, class_="small") for other in others if other]
    return element("span", element("span", first), *below, class_="lines")


def badge(text: str, *, kind: str) -> Markup:
    """A word in a frame. `kind`: good, bad, warm or plain."""
    return element("span", text, class_=f"badge {kind}")


def drop_cell(drop: float | None, interval: Interval | None, *, max_drop: float, scale: float) -> Markup:
    """A drop as a change, with a minus, and as a strip: where it lies with its interval, beside the budget.

    `scale`: the drop at the left end of the strip; gains are right of its middle.
    """
    change = write_signed(None if drop is None else 0.0 - drop)
    words = ""
    if interval is not None:
        words = f"{write_signed(-interval.high)} to {write_signed(-interval.low)}"
    told = lines(change, words)
    return (
        told
        if drop is None or not math.isfinite(drop)
        else element("span", told, _strip(drop, interval, max_drop=max_drop, scale=scale))
    )


def _row(cells: Sequence[str], headings: Sequence[str], *, numbers: Sequence[int]) -> Markup:
    written = [element("th", cells[0], scope="row", role="rowheader")]
    for place, cell in enumerate(cells[1:], start=1):
        written.append(
            element(
                "td",
                cell,
                role="cell",
                class_="number" if place in numbers else False,
                data_label=headings[place],
            )
        )
    return element("tr", *written, role="row")


def _strip(drop: float, interval: Interval | None, *, max_drop: float, scale: float) -> Markup:
    width, height = STRIP

    def place(lost: float) -> float:
        return 4 + (width - 8) * (scale - max(-scale, min(scale, lost))) / (2 * scale)

    middle = height / 2
    parts = [
        element("rect", x=0.0, y=0.0, width=place(max_drop), height=height, class_="beyond"),
        element("path", d=f"M{place(0.0):.1f} 0V{height:g}", class_="zero"),
        element("path", d=f"M{place(max_drop):.1f} 0V{height:g}", class_="budget"),
    ]
    if interval is not None:
        parts.append(
            element("path", d=f"M{place(interval.high):.1f} {middle:g}H{place(interval.low):.1f}", class_="whisker")
        )
    kind = "spot bad" if drop > max_drop else "spot"
    parts.append(element("circle", cx=place(drop), cy=middle, r=4.0, class_=kind))
    return element("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", class_="strip", aria_hidden="true")
