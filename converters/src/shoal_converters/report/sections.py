"""How do answers, boards and provenance appear in the report? A section each."""

import json
import math
from collections.abc import Sequence

from shoal_converters.report.figures import NOTHING, write_figure, write_size, write_value
from shoal_converters.report.markup import Markup, element, join
from shoal_converters.report.results import Confusion, Example, Prediction, Report, SourceComparison, VariantResult
from shoal_converters.report.tables import badge, lines, table

MOST_CONFUSIONS = 10
MOST_EXAMPLES = 8
MOST_JSON = 20_000
"""Characters of the reference distribution that are shown."""


def show_speeds(report: Report) -> Markup:
    """Every setting that was timed, and those that could not be."""
    rows = [
        (
            variant.name,
            speed.engine,
            speed.precision,
            str(speed.threads),
            write_figure(speed.p50_ms, unit="ms"),
            write_figure(speed.p95_ms, unit="ms"),
            write_figure(speed.answers_per_s, unit="/s"),
            write_size(speed.memory_bytes),
            write_figure(speed.joules, unit="J" if speed.joules is not None else ""),
        )
        for variant in report.variants
        for speed in variant.speeds
    ]
    headings = (
        "Variant",
        "Engine",
        "Computes",
        "Threads",
        "p50",
        "p95",
        "Sustained",
        "Peak memory",
        "Energy, an answer",
    )
    failed = [
        element("li", element("strong", variant.name), f" in {where}: {why}")
        for variant in report.variants
        for where, why in variant.not_timed.items()
    ]
    caption = "Latency of one item at a time, from its bytes to its answer; sustained rate with two under way"
    parts = [element("summary", f"All {len(rows)} settings that were timed")]
    parts.append(table(caption, headings, rows, numbers=(3, 4, 5, 6, 7, 8)))
    if failed:
        parts += [element("p", "Not timed:", class_="soft"), element("ul", *failed, class_="plain")]
    return element("details", *parts)


def show_source(comparison: SourceComparison) -> Markup:
    """How far each conversion in full precision lies from the source, and which lay too far."""
    rows = [
        (
            one.variant,
            one.output,
            f"{one.difference:.1e}" if math.isfinite(one.difference) else "not comparable",
            badge("refused", kind="bad") if one.difference > comparison.allowed else badge("same", kind="good"),
        )
        for one in comparison.differences
    ]
    caption = (
        f"{comparison.calls} calls of {comparison.items} items, answered by the source in {comparison.framework}. "
        "Largest difference: root mean square over a call, relative to the size of the output, of which "
        f"{comparison.allowed:g} is allowed for rounding in float32"
    )
    return table(caption, ("Variant", "Output", "Largest difference", "Verdict"), rows, numbers=(2,))


def show_boards(report: Report) -> list[Markup]:
    """For every board and variant: whether it runs, in what, how fast it should be, and how that is known."""
    boards = list(dict.fromkeys([one.board for one in report.boards] + [one.board for one in report.predictions]))
    verdicts = {(one.board, one.variant): one for one in report.boards}
    rows, sources = [], []
    for variant in report.variants:
        cells: list[str] = [variant.name]
        for board in boards:
            verdict = verdicts.get((board, variant.name))
            predicted = [one for one in report.predictions if (one.board, one.variant) == (board, variant.name)]
            sources += predicted
            if verdict is None:
                runs: Markup | str = NOTHING
            elif verdict.engines:
                runs = join([badge("runs", kind="good"), ", ".join(verdict.engines)])
            else:
                runs = badge("can't", kind="bad")
            words = verdict.words if verdict else ""
            told = [element("span", runs), *map(_prediction, predicted), element("span", words, class_="small")]
            cells.append(element("span", *told, class_="lines"))
        rows.append(cells)
    parts = [table("What each board can run, and what to expect there", ("Variant", *boards), rows)]
    if sources:
        told = [
            element("li", element("strong", f"{one.variant} on {one.board} ({one.engine}): "), one.source)
            for one in sources
        ]
        parts.append(
            element("details", element("summary", "Where these rates come from"), element("ul", *told, class_="plain"))
        )
    else:
        parts.append(
            element("p", "No profile has measurements that say how fast these variants are there.", class_="soft")
        )
    return parts


def show_confusions(report: Report) -> list[Markup]:
    """Pairs of labels that a variant confuses more or less often than the original does."""
    parts: list[Markup] = []
    for variant in report.variants:
        if not variant.confusions:
            continue
        ordered = sorted(
            variant.confusions, key=lambda one: (-abs(one.variant - one.original), one.expected, one.answered)
        )
        caption = f"{variant.name}: the {min(len(ordered), MOST_CONFUSIONS)} largest of {len(ordered)} changes"
        rows = [_confusion(one) for one in ordered[:MOST_CONFUSIONS]]
        parts.append(table(caption, ("Expected", "Answered", "Original", "Variant", "Change"), rows, numbers=(2, 3, 4)))
    return parts


def show_worst(report: Report) -> list[Markup]:
    """Items on which each variant does worse than the original."""
    parts = []
    for variant in report.variants:
        if variant.worst:
            parts.append(element("h3", variant.name))
            parts.append(element("div", *map(_example, variant.worst[:MOST_EXAMPLES]), class_="examples"))
    return parts


def show_golden(report: Report) -> Markup:
    """The cases that every board must pass before it serves the release."""
    rows = [
        (one.item, one.kind, write_value(one.minimum, digits=3), write_figure(one.maximum_difference))
        for one in report.golden
    ]
    caption = "Answered by every board before it serves this release"
    headings = ("Item", "Picked as", "Least score", "Largest difference of outputs")
    return table(caption, headings, rows, numbers=(2, 3))


def show_provenance(report: Report) -> list[Markup]:
    """Where everything comes from: digests, versions, command, licence."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()))
    facts = [
        ("Licence", report.licence),
        ("Provenance", report.provenance or NOTHING),
        ("Source, SHA-256", element("code", report.source_sha256)),
        ("Manifest, SHA-256", element("code", report.manifest_sha256 or NOTHING)),
        ("Command", element("code", report.command)),
        ("Machine", report.machine),
        ("Versions", versions),
    ]
    listed = [part for name, told in facts for part in (element("dt", name), element("dd", told))]
    parts = [element("dl", *listed, class_="facts"), _files(report)]
    if report.reference_output:
        parts.append(_reference(report))
    return parts


def _prediction(one: Prediction) -> Markup:
    threads = f"{one.threads} thread{'s' if one.threads > 1 else ''}"
    return element("span", f"about {write_figure(one.answers_per_s)} answers/s in {one.engine}, {threads}")


def _confusion(one: Confusion) -> Sequence[str]:
    change = one.variant - one.original
    is_worse = (change > 0) != (one.expected == one.answered)
    words = element("span", f"{change:+d}".replace("-", "−"), class_="worse" if is_worse else "better")
    return (one.expected, one.answered, str(one.original), str(one.variant), words)


def _example(one: Example) -> Markup:
    is_picture = one.picture.startswith("data:image/")
    frame = (
        element("div", element("img", src=one.picture, alt=f"{one.item}"), class_="frame") if is_picture else Markup()
    )
    said = [("expected", one.expected), ("original", one.original), ("variant", one.variant)]
    listed = [part for name, told in said for part in (element("dt", name), element("dd", told))]
    listed += [element("dt", "score"), element("dd", write_value(one.score, digits=3))]
    return element("figure", frame, element("figcaption", element("strong", one.item), element("dl", *listed)))


def _files(report: Report) -> Markup:
    described = [report.original, *report.variants]
    rows = [
        (file, variant.name, lines(_how(variant), variant.judged_in), element("code", digest))
        for variant in described
        for file, digest in variant.sha256s.items()
    ]
    return element(
        "details",
        element("summary", f"{len(rows)} files: how they were made, and their digests"),
        table(
            "Below how a file was made: what its accuracy was measured in", ("File", "Variant", "How", "SHA-256"), rows
        ),
    )


def _how(variant: VariantResult) -> str:
    return variant.how or NOTHING


def _reference(report: Report) -> Markup:
    text = json.dumps(report.reference_output, indent=1, sort_keys=True, ensure_ascii=False)
    shown = text if len(text) <= MOST_JSON else f"{text[:MOST_JSON]}\n… (the JSON report has all of it)"
    return element(
        "details",
        element("summary", "Distribution of answers on the evaluation set, against which drift is judged"),
        element("pre", shown),
    )
