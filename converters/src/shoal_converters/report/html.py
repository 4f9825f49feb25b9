"""How does a report look to a person? One HTML file that needs nothing else: no script, no network.

Text out of the report is escaped by `markup.element`; a content security policy forbids the browser what a mistake
there would let in.
"""

from collections.abc import Sequence

from shoal_converters.report.figures import (
    Figures,
    find_figures,
    write_figure,
    write_interval,
    write_ratio,
    write_size,
    write_value,
)
from shoal_converters.report.markup import Markup, element, raw
from shoal_converters.report.pareto import draw_legend, draw_pareto, list_points
from shoal_converters.report.quantization_section import show_attempts
from shoal_converters.report.results import Report, VariantResult
from shoal_converters.report.sections import (
    show_boards,
    show_confusions,
    show_golden,
    show_provenance,
    show_source,
    show_speeds,
    show_worst,
)
from shoal_converters.report.style import STYLE
from shoal_converters.report.tables import badge, drop_cell, lines, table
from shoal_converters.report.verdict import tell_verdict

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STRIP_BUDGETS = 2.5
"""Budgets that the strips of drops reach to either side."""
LEAST_SCALE = 0.01


def write_html(report: Report) -> str:
    """The text of the file. Equal reports give equal text."""
    title = f"{report.name} {report.version}: conversion report"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", title),
        element("style", raw(STYLE)),
    )
    body = element("body", _header(report), element("main", *_sections(report)), _footer(report))
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"


def _header(report: Report) -> Markup:
    is_released = any(one.is_released for one in report.variants)
    heading = element("h1", f"{report.name} ", element("span", f"version {report.version}", class_="version"))
    under = f"{report.task} · {report.metric} on {report.samples:,} items · measured on {report.machine}"
    return element(
        "header",
        heading,
        element("p", under, class_="under"),
        element("p", tell_verdict(report), class_="verdict" if is_released else "verdict none"),
        _tiles(report),
    )


def _tiles(report: Report) -> Markup:
    released = [one for one in report.variants if one.is_released]
    figures = {one.name: find_figures(one, report) for one in released}
    smaller = [one for one in released if "smaller" in one.gains and figures[one.name].size_ratio]
    faster = [one for one in released if "faster" in one.gains and figures[one.name].speed_ratio]
    drops = [one for one in released if one.drop is not None]
    tiles = [
        _tile(f"{len(released)} of {len(report.variants)}", "variants released"),
        _tile(write_value(report.original.value), f"{report.metric} of the original"),
    ]
    if drops:
        worst = max(drops, key=lambda one: one.drop or 0.0)
        tiles.append(
            _tile(
                write_value(max(0.0, worst.drop or 0.0)),
                f"largest drop of a released variant, {report.max_drop:g} allowed ({worst.name})",
            )
        )
    if smaller:
        least = min(smaller, key=lambda one: figures[one.name].size_ratio or 1.0)
        tiles.append(_tile(write_ratio(figures[least.name].size_ratio), f"the size of its fp32: {least.name}"))
    if faster:
        most = max(faster, key=lambda one: figures[one.name].speed_ratio or 1.0)
        tiles.append(_tile(write_ratio(figures[most.name].speed_ratio), f"the speed of its fp32: {most.name}"))
    return element("ul", *tiles, class_="tiles")


def _tile(number: str, what: str) -> Markup:
    return element("li", element("span", number, class_="big"), element("span", what, class_="what"))


def _sections(report: Report) -> list[Markup]:
    scale = max(report.max_drop * STRIP_BUDGETS, LEAST_SCALE)
    parts = [
        _section("Variants", [_variants(report, scale=scale), show_speeds(report)]),
        _section("Accuracy against latency", _plot(report)),
        _section("Boards", show_boards(report) if report.boards or report.predictions else []),
        _section("Search of a quantization", show_attempts(report, scale=scale)),
        _section(
            "Confusion, compared with the original",
            show_confusions(report),
            words="How often a label was answered where another was expected; on the diagonal more is better.",
        ),
        _section(
            "Worst examples",
            show_worst(report),
            words="Items on which a variant is worse than the original.",
        ),
        _section(
            "Compared with the source in its own framework", [show_source(report.source)] if report.source else []
        ),
        _section("Golden cases", [show_golden(report)] if report.golden else []),
        _section("Variants that could not be made", _missing(report)),
        _section("Notes", [_list(report.notes)] if report.notes else []),
        _section("Provenance", show_provenance(report)),
    ]
    return [part for part in parts if part]


def _section(heading: str, parts: Sequence[str], *, words: str = "") -> Markup:
    """Nothing where it would be empty."""
    if not parts:
        return Markup()
    said = [element("p", words, class_="soft")] if words else []
    return element("section", element("h2", heading), *said, *parts)


def _variants(report: Report, *, scale: float) -> Markup:
    has_meter = any(speed.joules is not None for one in report.variants for speed in one.speeds)
    headings = ["Variant", report.metric, "Change", "Agreement", "Size", "p50 latency", "Sustained"]
    headings += ["Energy"] if has_meter else []
    headings += ["Gain"]
    ordered = sorted(report.variants, key=lambda one: not one.is_released)
    rows = [_original_row(report, columns=len(headings))]
    rows += [_variant_row(one, report, scale=scale, has_meter=has_meter) for one in ordered]
    caption = (
        "Below each accuracy and change: the interval that holds it with 95 % confidence. Below size and latency: the "
        "ratio to the fp32 variant of the same format. Latency and rate are those of the best engine and number of "
        f"threads here. Shaded: more than the {report.max_drop:g} that may be lost."
    )
    if not has_meter:
        caption += " This machine has no meter of energy that can be read."
    return table(caption, headings, rows, numbers=range(1, len(headings) - 1))


def _original_row(report: Report, *, columns: int) -> list[str]:
    one = report.original
    mark = [] if one.name == "original" else [" ", badge("original", kind="plain")]
    name = lines(element("span", one.name, *mark), one.how)
    row: list[str] = [name, lines(write_value(one.value), write_interval(one.interval)), "", ""]
    row.append(write_size(one.size_bytes) if one.size_bytes else "")
    return row + [""] * (columns - len(row))


def _variant_row(one: VariantResult, report: Report, *, scale: float, has_meter: bool) -> list[str]:
    figures = find_figures(one, report)
    row: list[str] = [
        _name(one),
        lines(write_value(one.value), write_interval(one.interval)),
        drop_cell(one.drop, one.drop_interval, max_drop=report.max_drop, scale=scale),
        write_value(one.agreement),
        lines(write_size(one.size_bytes), write_ratio(figures.size_ratio) if figures.fp32 else ""),
        _latency(figures),
        write_figure(figures.answers_per_s, unit="/s" if figures.answers_per_s is not None else ""),
    ]
    if has_meter:
        row.append(write_figure(figures.joules, unit="J" if figures.joules is not None else ""))
    gains = [badge(gain, kind="good") for gain in one.gains]
    row.append(element("span", *gains) if gains else "none" if figures.fp32 else "")
    return row


def _name(one: VariantResult) -> Markup:
    state = badge("released", kind="good") if one.is_released else badge("not released", kind="bad")
    reason = [element("span", one.reason, class_="small" if one.is_released else "small bad")] if one.reason else []
    return element("span", element("span", one.name, " ", state), *reason, class_="lines")


def _latency(figures: Figures) -> Markup:
    fastest = figures.fastest
    if fastest is None:
        return element("span", write_figure(None))
    threads = f"{fastest.engine}, {fastest.threads} thread{'s' if fastest.threads > 1 else ''}"
    faster = f"{write_ratio(figures.speed_ratio)} as fast" if figures.speed_ratio is not None else ""
    return lines(write_figure(fastest.p50_ms, unit="ms"), faster, threads)


def _plot(report: Report) -> list[Markup]:
    kinds = list(dict.fromkeys(point.kind for point in list_points(report)))
    if not kinds:
        return []
    caption = element(
        "figcaption",
        draw_legend(kinds),
        "The area of a point is the size of the files. ★ with a dark rim: no other variant is as good in accuracy, "
        "latency and size and better in one. Dashed and pale: not released.",
    )
    plot = element("div", draw_pareto(report, kinds=kinds), class_="scroll", tabindex=0, role="group")
    return [element("figure", plot, caption)]


def _missing(report: Report) -> list[Markup]:
    if not report.missing:
        return []
    listed = [element("li", element("strong", name), f": {why}") for name, why in report.missing.items()]
    return [element("ul", *listed, class_="plain")]


def _list(lines: Sequence[str]) -> Markup:
    return element("ul", *(element("li", line) for line in lines), class_="plain")


def _footer(report: Report) -> Markup:
    return element("footer", "Written by shoal-convert. The JSON report beside this file has the same and more digits.")
